"""The debuggers that a stop can open, by the names that are typed and sent. Pure."""

from __future__ import annotations

PUDB = "pudb"
PDB = "pdb"

ENGINES = (PUDB, PDB)
"""All of them, the default first."""

DEFAULT_ENGINE = PUDB
"""The one that opens where neither terminal nor stop nor rank has a wish."""

LINE_ENGINE = PDB
"""The one that is spoken to in lines; every other one draws a screen."""
