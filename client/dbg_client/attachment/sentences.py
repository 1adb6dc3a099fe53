"""What the user is told of a rank, in sentences. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dbg_wire.errors import printable
from dbg_wire.messages import RankReport
from dbg_wire.records.ranks import RankState

MAX_SHOWN = 40
"""Characters of discarded keys that are repeated."""


def why_blank(address: str, report: RankReport | None) -> str:
    """Return what stands on the screen while no debugger does; empty while one does."""
    if report is None:
        return ""
    if report.stop is not None:
        if report.stepping:
            return f"{address} is running to the end of a step.\nIts debugger comes back here then."
        # Where other threads keep the interpreter busy, the import of PuDB alone takes seconds.
        return f"{address} is stopped.\nIts debugger opens." if report.session is None else ""
    if report.state is RankState.HELD:
        return f"{address} is held: it waits for other ranks."
    left = []
    if report.breakpoints:
        left.append(f"{report.breakpoints} breakpoint{'s' if report.breakpoints > 1 else ''} left")
    if report.queued:
        left.append(f"{report.queued} more thread{'s' if report.queued > 1 else ''} stopped")
    if not left:
        return f"{address} is running."
    return f"{address} is running, {' and '.join(left)}.\nIts debugger comes back here at the next stop."


@dataclass(frozen=True, slots=True)
class Turn:
    """What a seat changed. ``had``, ``has`` and ``wished`` are about this terminal and the keyboard."""

    first: bool
    had: bool
    has: bool
    driver_before: str | None
    driver: str | None
    wished: bool


def who_types(turn: Turn, how_to_take: str) -> str | None:
    """Return a sentence on the user who has the keyboard now; None if that is no news."""
    who = printable(turn.driver) if turn.driver else None
    if turn.has:
        return None if turn.first or turn.had else "you have the keyboard"
    if turn.had:
        return f"{who} took the keyboard" if who else f"the keyboard is free{how_to_take}"
    if turn.first:
        return f"{who} types{how_to_take}" if turn.wished and who else None
    if turn.driver == turn.driver_before:
        return None
    return f"{who} types now" if who else f"nobody types now{how_to_take}"


def discarded(text: str, reason: str) -> str:
    """Return that something typed will have no effect, and why."""
    return f"discarded: '{printable(text, MAX_SHOWN)}' ({printable(reason)})"
