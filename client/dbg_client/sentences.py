"""What the user is told of a rank, in sentences. Pure."""

from __future__ import annotations

from dbg_wire.errors import printable
from dbg_wire.messages import RankReport
from dbg_wire.ranks import RankState

MAX_SHOWN = 40
"""Characters of discarded keys that are repeated."""


def why_blank(address: str, report: RankReport | None) -> str:
    """Return what stands on the screen while no debugger does; empty while one does."""
    if report is None or report.stop is not None:
        return ""
    if report.state is RankState.HELD:
        return f"{address} is held: it waits for other ranks."
    left = []
    if report.breakpoints:
        left.append(f"{report.breakpoints} breakpoint{'s' if report.breakpoints > 1 else ''} left")
    if report.queued:
        left.append(f"{report.queued} more thread{'s' if report.queued > 1 else ''} stopped")
    return f"{address} is running, {' and '.join(left)}.\nIts debugger comes back here at the next stop."


def discarded(text: str, reason: str) -> str:
    """Return that something typed will have no effect, and why."""
    return f"discarded: '{printable(text, MAX_SHOWN)}' ({printable(reason)})"
