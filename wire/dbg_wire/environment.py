"""The environment variables that more than one role knows. Pure.

What runs in every interpreter of a job, ``dbg_agent.autostart`` and ``dbg_agent.launch``, imports none of this and
spells its variables once more.
"""

from __future__ import annotations

BROKER = "DBG_BROKER"
"""The broker's address, with its fingerprint after ``#``."""

HOME = "DBG_HOME"
"""The directory of broker.json, tokens and certificate."""

TOKEN = "DBG_TOKEN"  # noqa: S105 - a variable's name
TOKEN_FILE = "DBG_TOKEN_FILE"  # noqa: S105 - a variable's name
"""The token itself, or the file that holds it, which goes first."""

AUTOSTART = "DBG_AUTOSTART"
"""Makes ranks of what a job starts; its value is the process that has started the job, or a rank's claim."""

JOB = "DBG_JOB"
"""The job's name."""

STOP_AT = "DBG_STOP_AT"
STOP_IN = "DBG_STOP_IN"
"""The stops of a job, one on each line."""

RANKS = "DBG_RANKS"
"""The ranks that stop; the others are held."""

ENGINE = "DBG_ENGINE"
"""The debugger that opens if nobody asks for one."""

POST_MORTEM = "DBG_POST_MORTEM"
"""Keeps ranks with an uncaught exception."""

COLLECTIVE_TIMEOUT = "DBG_COLLECTIVE_TIMEOUT"
"""Seconds that a collective may take."""
