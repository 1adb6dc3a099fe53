"""MindSpeed's ``breakpoint_`` and ``clear_`` through the broker. A program only imports them from here instead.

``RANK_TO_DEBUG`` names the rank that stops, or several ranks as in ``0,8-11``. Unlike the originals, these functions
need no file that all hosts see. The other ranks go on when the stop ends without ``clear_()``, or if the rank never
arrives.
"""

from __future__ import annotations

import os
import sys

from dbg_agent.process.stderr import say
from dbg_agent.program.entry import let_others_go, stop_at

_told = False

UNSET = "breakpoint_() stops no rank, since RANK_TO_DEBUG is not set; set it to the rank to stop"


def breakpoint_(non_block: bool = True) -> None:
    """Stop the rank that ``RANK_TO_DEBUG`` names; with ``non_block`` False, the other ranks wait here meanwhile.

    Without the variable no rank stops, and a line on stderr says so, once.
    """
    chosen = os.environ.get("RANK_TO_DEBUG")
    if chosen:
        stop_at(sys._getframe(1), {"ranks": chosen, "hold": not non_block}, ())
    else:
        _tell_missing()


def clear_() -> None:
    """Let the ranks go on that wait for the stop in which this is typed; the stop stays. Does nothing elsewhere."""
    let_others_go()


def _tell_missing() -> None:
    global _told  # noqa: PLW0603 - one per process
    if not _told:
        _told = True
        say(UNSET)
