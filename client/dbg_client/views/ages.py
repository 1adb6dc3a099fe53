"""For how long ranks have been where they are, and for whom those in a collective wait. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dbg_wire.errors import printable
from dbg_wire.messages import RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState

SHORTEST_SECONDS = 1.0
"""Seconds below which an age is no news: every rank has been somewhere for a moment."""

STANDING = ("stopped", "held")
"""States in which a rank stands still, so that no sentence needs to say what it has been in."""

TOLD = ("running", *STANDING)
"""States to which the age is added; the texts of other states tell it themselves, or are about ranks that can't."""

WAITS = "waits in "
"""How the state of a rank in a collective begins."""


class StandingCounts:
    """How many ranks of each job stand still, by state; the caller's list may be longer than what it shows."""

    def __init__(self, ranks: Iterable[RankInfo]) -> None:
        self._counts = Counter((rank.job, rank.state) for rank in ranks)

    def show_wait(self, collective: str, job: str) -> str:
        """Return what a running rank of a job waits for, as :func:`show_wait`."""
        return show_wait(collective, self._counts[job, RankState.STOPPED], self._counts[job, RankState.HELD])


def show_wait(collective: str, stopped: int, held: int) -> str:
    """Return ``waits in all_reduce for 3 stopped ranks``; empty without a collective or a rank to wait for."""
    counts = [f"{count} {state}" for count, state in ((stopped, "stopped"), (held, "held")) if count]
    if not collective or not counts:
        return ""
    ranks = "rank" if stopped + held == 1 else "ranks"
    return f"waits in {printable(collective, 80)} for {' and '.join(counts)} {ranks}"


@dataclass(frozen=True, slots=True)
class Age:
    """For how many seconds a rank has been at its place, or at least; None if that is unknown."""

    seconds: float | None = None
    at_least: bool = False


def age_of(answer: RankAnswer) -> Age:
    """Return the age that an answer tells."""
    return Age(answer.age, answer.at_least)


def oldest(ages: Sequence[Age]) -> float | None:
    """Return the seconds of the oldest age that is known; None if none is."""
    return max((age.seconds for age in ages if age.seconds is not None), default=None)


def with_age(state: str, ages: Sequence[Age]) -> str:
    """Return the state of some ranks, and for how long they have been where they are."""
    seconds = oldest(ages)
    if seconds is None or seconds < SHORTEST_SECONDS or not (state in TOLD or state.startswith(WAITS)):
        return state
    known = [age.seconds for age in ages if age.seconds is not None]
    differ = len(known) < len(ages) or show_age(min(known)) != show_age(seconds)
    how_long = f"{'at least ' if any(age.at_least for age in ages) else ''}{show_age(seconds)}"
    if differ:
        return f"{state}, the longest for {how_long}"
    return f"{state} for {how_long}" if state in STANDING else f"{state}, in it for {how_long}"


def show_duration(seconds: float) -> str:
    """Return seconds as people say them; clocks of two hosts differ, so never a negative number."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole < 48 * 3600 else f"{whole // 86400} d"


def show_age(seconds: float) -> str:
    """Return seconds as ``8 s``, ``4 min 12 s``, ``2 h 5 min`` or ``3 d 4 h``."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(whole, 60, "min", 1, "s")
    return _two(whole, 3600, "h", 60, "min") if whole < 48 * 3600 else _two(whole, 86400, "d", 3600, "h")


def _two(whole: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = whole % large // small
    return f"{whole // large} {large_unit}" + (f" {rest} {small_unit}" if rest else "")
