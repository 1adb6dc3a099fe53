"""The debuggers that a stop can open, by the names that are typed and sent. Pure."""

from __future__ import annotations

PUDB = "pudb"
PDB = "pdb"

ENGINES = (PUDB, PDB)
"""All of them, the default first."""

DEFAULT_ENGINE = PUDB
"""The debugger that opens if neither terminal nor stop nor rank names one."""

LINE_ENGINE = PDB
"""The debugger that reads and prints lines; every other debugger draws a screen."""
