"""Text about how long ranks have been at their places, and about ranks that wait in a collective. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dbg_wire.errors import printable
from dbg_wire.messages import RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState

SHORTEST_SECONDS = 1.0
"""Minimum age in seconds that is shown. Shorter ages are normal at any place."""

STANDING = ("stopped", "held")
"""States of ranks that don't run. The meaning of their age is clear without an explanation."""

TOLD = ("running", *STANDING)
"""States whose text is followed by the age. Texts of other states contain the age, or have none."""

WAITS = "waits in "
"""Prefix of the state of a rank in a collective."""


class StandingCounts:
    """Number of ranks of each job in each state, including ranks that the caller does not show."""

    def __init__(self, ranks: Iterable[RankInfo]) -> None:
        self._counts = Counter((rank.job, rank.state) for rank in ranks)

    def show_wait(self, collective: str, job: str) -> str:
        """Return the text of :func:`show_wait` for a running rank of this job."""
        return show_wait(collective, self._counts[job, RankState.STOPPED], self._counts[job, RankState.HELD])


def show_wait(collective: str, stopped: int, held: int) -> str:
    """Return ``waits in all_reduce for 3 stopped ranks``; empty without a collective or a stopped or held rank."""
    counts = [f"{count} {state}" for count, state in ((stopped, "stopped"), (held, "held")) if count]
    if not collective or not counts:
        return ""
    ranks = "rank" if stopped + held == 1 else "ranks"
    return f"waits in {printable(collective, 80)} for {' and '.join(counts)} {ranks}"


@dataclass(frozen=True, slots=True)
class Age:
    """Seconds that a rank has been at its place; None if unknown. With ``at_least`` it may be longer."""

    seconds: float | None = None
    at_least: bool = False


def age_of(answer: RankAnswer) -> Age:
    """Return the age in an answer."""
    return Age(answer.age, answer.at_least)


def oldest(ages: Sequence[Age]) -> float | None:
    """Return the seconds of the oldest known age; None if no age is known."""
    return max((age.seconds for age in ages if age.seconds is not None), default=None)


def with_age(state: str, ages: Sequence[Age]) -> str:
    """Return the state of some ranks, and the time that they have been at their place."""
    seconds = oldest(ages)
    if seconds is None or seconds < SHORTEST_SECONDS or not (state in TOLD or state.startswith(WAITS)):
        return state
    known = [age.seconds for age in ages if age.seconds is not None]
    differ = len(known) < len(ages) or show_age(min(known)) != show_age(seconds)
    how_long = f"{'at least ' if any(age.at_least for age in ages) else ''}{show_age(seconds)}"
    if differ:
        return f"{state}, the longest for {how_long}"
    return f"{state} for {how_long}" if state in STANDING else f"{state}, unchanged for {how_long}"


def show_duration(seconds: float) -> str:
    """Return seconds as ``8 s``, ``4 min``, ``2 h`` or ``3 d``. Negative numbers, from clocks that differ, become 0."""
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
