"""Which of the collectives that a run stands in are causes, and which only wait behind others. Pure.

A rank that has not come to a collective is a cause, unless it waits in another one itself; then the cause is there.
Ranks may wait for each other in a circle: each is in another collective, to which others have not come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from dbg_client.core.collective_matching import Matched, PendingCollective
from dbg_client.core.process_groups import has_peer
from dbg_client.hang.condition import Condition
from dbg_client.hang.verdict import VerdictKind

_GONE = frozenset({VerdictKind.DEAD, VerdictKind.SUSPENDED, VerdictKind.STUCK, VerdictKind.DEADLOCK})
"""Conditions in which a rank that has told nothing can't have come."""

_ALIKE = frozenset({"allreduce", "broadcast", "reduce", "allgather", "allgatherbase", "reducescatter", "bcast"})
"""Collectives whose inputs have one size and type in all ranks; those of others may differ."""


@dataclass(slots=True, kw_only=True)
class Cause:
    """A collective to which ``culprits`` have not come.

    ``also`` are others that wait for the same ranks, and ``behind`` those that wait for ranks that wait here.
    """

    standing: PendingCollective
    culprits: tuple[int, ...]
    also: list[PendingCollective] = field(default_factory=list)
    behind: list[PendingCollective] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Causes:
    """The collectives of one run by what is the matter with each; those that only wait behind are left out.

    ``conflicts`` are those whose ranks disagree, ``lonely`` those of a group that one rank alone has made, ``circles``
    those that wait for each other, ``doubtful`` those of which silent ranks may be missing, ``complete`` those in which
    all wait and nobody is missing, ``peerless`` a send or receive to nobody who is known.
    """

    missing: list[Cause] = field(default_factory=list)
    conflicts: list[PendingCollective] = field(default_factory=list)
    lonely: list[PendingCollective] = field(default_factory=list)
    circles: list[tuple[PendingCollective, ...]] = field(default_factory=list)
    doubtful: list[PendingCollective] = field(default_factory=list)
    complete: list[PendingCollective] = field(default_factory=list)
    peerless: list[PendingCollective] = field(default_factory=list)


def find_causes(matched: Matched, conditions: Mapping[int, Condition]) -> Causes:
    """Return what the collectives of a run wait for; ``conditions`` are those of its ranks."""
    return _Finding(matched, conditions).causes()


def named_differently(standing: PendingCollective) -> bool:
    """Return whether ranks call it by different names."""
    return len({call.name for call in standing.all_calls.values() if call.name}) > 1


def is_certain_conflict(standing: PendingCollective) -> bool:
    """Return whether ranks call it by different names and their library records name and number together.

    Its age makes no difference then. A rank's count and its stack are read one after the other, and may not agree.
    """
    is_recorded = all(call.timeout is not None and call.sequence is not None for call in standing.all_calls.values())
    return is_recorded and not standing.has_peer and named_differently(standing)


def payload(standing: PendingCollective, number: int) -> tuple[str, int | str]:
    """Return what must be equal in all ranks: the types, and the size or else the shapes; nothing for a free one."""
    call = standing.all_calls[number]
    if call.name.lower().replace("_", "").strip() not in _ALIKE:
        return "", ""
    return call.types, call.size if call.size is not None else call.shapes


def _is_conflict(standing: PendingCollective) -> bool:
    if standing.has_peer:
        return False
    # A library may let ranks finish that have passed less data than others, which then wait for the rest.
    payloads = {payload(standing, number) for number in standing.all_calls} - {("", "")}
    return named_differently(standing) or len(payloads) > 1


def _is_lonely(standing: PendingCollective, matched: Matched) -> bool:
    group = standing.group
    size = max([len(group.numbers), *(member.seen.size or 0 for member in group.members.values())])
    others = [number for number in group.numbers if number not in group.members]
    told = [one for number, one in matched.roster.items() if number not in group.members and one.tells_collectives]
    if group.is_inferred or standing.has_peer or len(group.members) != 1 or size < 2 or not told:
        return False
    return all(number in matched.roster and matched.roster[number].tells_collectives for number in others)


class _Finding:
    def __init__(self, matched: Matched, conditions: Mapping[int, Condition]) -> None:
        self._matched = matched
        self._conditions = conditions
        self._suspects = [self._suspects_of(standing) for standing in matched.standings]
        self._found = Causes()
        self._heads: set[int] = set()
        self._waiting: defaultdict[int, list[int]] = defaultdict(list)
        """The standings in which each rank waits for something, by their index."""

    def causes(self) -> Causes:
        for index, standing in enumerate(self._matched.standings):
            if self._sort(index, standing):
                for number in standing.waiting:
                    self._waiting[number].append(index)
        waiting_for_others = [
            index for index in range(len(self._matched.standings)) if self._suspects[index] and index not in self._heads
        ]
        roots = {index: self._roots(index) for index in waiting_for_others}
        self._blame([index for index in waiting_for_others if roots[index]], roots)
        self._heads.update(index for index in waiting_for_others if roots[index])
        for index in waiting_for_others:
            if index not in self._heads:
                self._follow(index)
        return self._found

    def _sort(self, index: int, standing: PendingCollective) -> bool:
        """Put a standing where its own ranks tell what it is; return whether the ranks in it wait."""
        head: list[PendingCollective] | None = None
        if _is_conflict(standing):
            head = self._found.conflicts
        elif _is_lonely(standing, self._matched):
            head = self._found.lonely
        elif standing.has_peer and standing.peer is None and not self._is_met(standing):
            head = self._found.peerless
        elif self._suspects[index]:
            return True
        elif standing.unheard:
            head = self._found.doubtful
        elif standing.has_peer or set(standing.came) == set(standing.calls):
            head = self._found.complete
        if head is not None:
            head.append(standing)
            self._heads.add(index)
        return head is not None

    def _is_met(self, standing: PendingCollective) -> bool:
        """Tell whether another rank of the group is in the other half of a send or receive whose peer is unknown."""
        return any(
            other.group is standing.group
            and has_peer(next(iter(other.calls.values())))
            and other.is_receive is not standing.is_receive
            for other in self._matched.standings
        )

    def _suspects_of(self, standing: PendingCollective) -> tuple[int, ...]:
        gone = [number for number in standing.unheard if self._is_gone(number)]
        return tuple(sorted({*standing.missing, *gone}))

    def _is_gone(self, number: int) -> bool:
        condition = self._conditions.get(number)
        return condition is None or condition.kind in _GONE

    def _roots(self, index: int) -> tuple[int, ...]:
        """Return the suspects that do not come because of what they do themselves."""
        return tuple(
            number
            for number in self._suspects[index]
            if not self._waiting[number] or (number in self._conditions and self._conditions[number].is_still)
        )

    def _blame(self, indices: Sequence[int], roots: Mapping[int, tuple[int, ...]]) -> None:
        """Make a cause for each set of culprits; a rank is the culprit of one."""
        standings = self._matched.standings
        blamed: dict[int, Cause] = {}
        for index in sorted(indices, key=lambda index: _weight(standings[index])):
            standing = standings[index]
            fresh = tuple(number for number in roots[index] if number not in blamed)
            if fresh:
                cause = Cause(standing=standing, culprits=fresh)
                self._found.missing.append(cause)
                blamed.update(dict.fromkeys(fresh, cause))
            else:
                blamed[roots[index][0]].also.append(standing)

    def _follow(self, start: int) -> None:
        """Find what a standing without a culprit of its own waits for: a cause elsewhere, or itself in a circle."""
        reached, path = self._reach(start)
        if not reached & self._heads:
            circle = self._circle(path)
            self._heads.update(reached, circle)
            self._add_circle(circle, reached)
            return
        for cause in self._found.missing:
            if any(self._matched.standings[index] is cause.standing for index in reached):
                cause.behind.append(self._matched.standings[start])
                return

    def _add_circle(self, circle: Sequence[int], reached: Collection[int]) -> None:
        """Add standings that wait for each other; of a send or receive among collectives the partner is the cause.

        A rank that leaves out a send goes on to the next collective, in which the others can't arrive.
        """
        standings = [self._matched.standings[index] for index in circle]
        exchange = next(filter(self._leads_to_collective, circle), None)
        if exchange is None or all(standing.has_peer for standing in standings):
            self._found.circles.append(tuple(standings))
            return
        standing = self._matched.standings[exchange]
        behind = [self._matched.standings[index] for index in sorted(reached) if index != exchange]
        self._found.missing.append(Cause(standing=standing, culprits=self._suspects[exchange], behind=behind))

    def _leads_to_collective(self, index: int) -> bool:
        """Tell whether a send or receive waits for a rank that is in a collective."""
        following = [other for number in self._suspects[index] for other in self._waiting[number]]
        standings = self._matched.standings
        return standings[index].has_peer and any(not standings[other].has_peer for other in following)

    def _reach(self, start: int) -> tuple[set[int], list[int]]:
        reached: set[int] = {start}
        path = [start]
        for index in path:
            for number in self._suspects[index]:
                for following in self._waiting[number]:
                    if following not in reached:
                        reached.add(following)
                        path.append(following)
        return reached, path

    def _circle(self, path: Collection[int]) -> list[int]:
        """Return the standings of a circle, each waiting for a rank in the next."""
        walked: list[int] = []
        index = min(path, key=lambda index: _weight(self._matched.standings[index]))
        while index not in walked:
            walked.append(index)
            following = [other for number in self._suspects[index] for other in self._waiting[number] if other != index]
            if not following:
                break
            index = min(following, key=lambda other: _weight(self._matched.standings[other]))
        return walked[walked.index(index) :]


def _weight(standing: PendingCollective) -> tuple[object, ...]:
    """Order the standings with most ranks waiting, and the oldest, first."""
    return -len(standing.calls), -(standing.age or 0.0), standing.group.label, standing.call, standing.waiting
