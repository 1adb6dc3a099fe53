"""The ways out of a debugger, and their descriptions for the user."""

from __future__ import annotations

import enum

from dbg_agent.stop.crash import Crash


class WayOut(enum.Enum):
    """How a debugger was left."""

    GO_ON = "go on"
    """The thread goes on; the stop is over."""
    STEP = "step"
    """The thread runs to the end of a step; the stop goes on."""
    LEFT = "left"
    """Another debugger is to be opened on the same stop."""


def what_continue_does(crash: Crash | None) -> str:
    """Return what happens if the rank leaves its present stop, as a clause without a subject."""
    if crash is None:
        return "remove all breakpoints and let it run"
    if crash.ends:
        return f"let {crash.ends} end by its exception"
    return "let the program go on behind post_mortem()"
