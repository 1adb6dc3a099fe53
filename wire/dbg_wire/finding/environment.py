"""The environment variables that more than one role knows. Pure.

``dbg_agent.autostart`` and ``dbg_agent.launch`` run in every interpreter of a job. They don't import this module, to
start fast, and define the names of their variables again.
"""

from __future__ import annotations

BROKER = "DBG_BROKER"
"""The broker's address, with its fingerprint after ``#``."""

CA = "DBG_CA"
"""A PEM file of the authorities of which one must have signed the broker's certificate."""

HOME = "DBG_HOME"
"""The directory of broker.json, tokens and certificate."""

SOLE_USER = "DBG_SOLE_USER"
"""1: no other user is on this host, as in a container; see ``dbg_broker.home.private_files``."""

TOKEN = "DBG_TOKEN"  # noqa: S105 - a variable's name
TOKEN_FILE = "DBG_TOKEN_FILE"  # noqa: S105 - a variable's name
"""The token itself, and the file that holds it. The file wins if both are set."""

AUTOSTART = "DBG_AUTOSTART"
"""Makes ranks of the programs that a job starts; its value is the process that started the job, or a rank's claim."""

JOB = "DBG_JOB"
"""The job's name."""

STOP_AT = "DBG_STOP_AT"
STOP_IN = "DBG_STOP_IN"
"""The stops of a job, one on each line."""

RANKS = "DBG_RANKS"
"""The ranks that stop; the others are held."""

ENGINE = "DBG_ENGINE"
"""The debugger that opens if neither the terminal nor the stop names one."""

POST_MORTEM = "DBG_POST_MORTEM"
"""Keeps a rank with an uncaught exception stopped, for post-mortem debugging."""

COLLECTIVE_TIMEOUT = "DBG_COLLECTIVE_TIMEOUT"
"""Seconds that a collective may take."""

EXEC = "DBG_EXEC"
"""0: nobody runs a command beside this rank."""
