"""For how long ranks have been where they are, as far as that is known. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbg_wire.messages import RankAnswer

SHORTEST_SECONDS = 1.0
"""Seconds below which an age is no news: every rank has been somewhere for a moment."""

STANDING = ("stopped", "held")
"""States in which a rank stands still, so that no sentence needs to say what it has been in."""

TOLD = ("running", *STANDING)
"""States to which the age is added; the texts of other states tell it themselves, or are about ranks that can't."""

WAITS = "waits in "
"""How the state of a rank in a collective begins."""


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
