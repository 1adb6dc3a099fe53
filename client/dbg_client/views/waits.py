"""For how long ranks have been where they are, and what those in a collective wait for. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.core.collective_matching import Matched, PendingCollective, pending_of_each
from dbg_wire.errors import printable
from dbg_wire.messages import RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState

MAX_LABEL = 120
"""Characters of a collective and its group."""

NONE_PENDING: Mapping[str, PendingCollective] = {}
"""No rank has told which collective it is in."""


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


def recorded_collectives(matched: Iterable[Matched]) -> Mapping[str, PendingCollective]:
    """Return by the rank's key the collective that each rank is in, as far as a library has recorded it."""
    return {key: standing for key, standing in pending_of_each(matched).items() if not standing.group.is_inferred}


def show_pending(standing: PendingCollective) -> str:
    """Return ``waits in all_reduce #3172 of dp_0, 15 of 16 there``, or ``waits in recv #2 of pp from rank 3``.

    The tag of a send or receive, and the root that all ranks have passed, stand behind the group.
    """
    arguments = tag_of(standing) or root_of(standing)
    label = printable(standing.label, MAX_LABEL) + (f" ({arguments})" if arguments else "")
    if standing.has_peer:
        peer = f"rank {standing.peer}" if standing.peer is not None else "any rank"
        return f"waits in {label} {'from' if standing.is_receive else 'to'} {peer}"
    return f"waits in {label}, {len(standing.came)} of {len(standing.group.numbers)} there"


def tag_of(standing: PendingCollective) -> str:
    """Return ``tag 12`` of a send or receive; empty for any tag, for 0, which calls without one have, or an unknown."""
    tag = next((call.tag for call in standing.calls.values()), None) if standing.has_peer else None
    return f"tag {tag}" if tag is not None and tag > 0 else ""


def root_of(standing: PendingCollective) -> str:
    """Return ``root 1`` of a collective if its ranks have passed one root as far as they tell; empty otherwise."""
    roots = list(standing.roots)
    return f"root {roots[0]}" if len(roots) == 1 else ""


def pending_document(standing: PendingCollective | None) -> dict[str, object] | None:
    """Return what becomes the JSON of a collective; of a send or receive two ranks are expected."""
    if standing is None:
        return None
    came, of = len(standing.came), len(standing.group.numbers)
    if standing.has_peer:
        came, of = (1 if standing.missing or standing.unheard else 2), 2
    return {
        "name": standing.name,
        "sequence": standing.sequence,
        "group": standing.group.label,
        "there": came,
        "of": of,
    }


SHORTEST_SECONDS = 1.0
"""Seconds below which an age is no news: every rank has been somewhere for a moment."""

STANDING = ("stopped", "held")
"""States in which a rank stands still, so that no sentence needs to say what it has been in."""

NEAR_SECONDS = 2.0
NEAR_FACTOR = 1.5
"""Ages that differ by no more than this are about the same: ranks come to a place, and are asked, one after another."""

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


def of_about_one_age(ages: Mapping[int, Age]) -> list[dict[int, Age]]:
    """Return the ranks in groups of about the same age; those whose age is unknown, or no news, are one group."""
    no_news = {number: age for number, age in ages.items() if not _news(age)}
    groups = [no_news] if no_news else []
    limit = 0.0
    for number, age in sorted(ages.items(), key=lambda item: _news(item[1]))[len(no_news) :]:
        if _news(age) > limit:
            groups.append({})
            limit = max(_news(age) * NEAR_FACTOR, _news(age) + NEAR_SECONDS)
        groups[-1][number] = age
    return groups


def told_for(ages: Sequence[Age]) -> str:
    """Return for how long all of these ranks have been where they are, as ``at least 5 s``; empty if it is no news."""
    seconds = min(map(_news, ages), default=0.0)
    if not seconds:
        return ""
    differ = show_age(max(map(_news, ages))) != show_age(seconds)
    return f"{'at least ' if differ or any(age.at_least for age in ages) else ''}{show_age(seconds)}"


def _news(age: Age) -> float:
    """Return the seconds of an age; 0 if it is unknown, or too short to be news."""
    return age.seconds if age.seconds is not None and age.seconds >= SHORTEST_SECONDS else 0.0


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
