"""Root causes of a hang: the sinks and cycles of the wait-for graph, and the collectives that each blocks. Pure.

A rank that has not reached a collective is a root cause, unless it waits for another rank; then that rank is the root
cause. A collective whose calls show the error, such as different calls of its ranks, is also a root cause. Ranks that
wait for each other, in collectives or for resources, are a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dbg_client.why.collective_matching import Matched, PendingCollective, difference_of, is_parting, sides
from dbg_client.why.condition import RankCondition
from dbg_client.why.process_groups import has_peer
from dbg_client.why.verdict import Finding, Topic, VerdictKind
from dbg_client.why.wait_analysis import Node, NodeKind, WaitAnalysis, collective_node, rank_node

_GONE = frozenset({VerdictKind.DEAD, VerdictKind.ENDED, VerdictKind.SUSPENDED, VerdictKind.STUCK, VerdictKind.DEADLOCK})
"""A rank in such a condition can't have called a collective. The rank blocks the collective even without a report."""


def awaited_ranks(matched: Matched, conditions: Mapping[int, RankCondition]) -> dict[int, tuple[int, ...]]:
    """Return the ranks that block each collective, by the collective's index.

    A collective that is a root cause itself has no ranks; a collective that nothing blocks is omitted.
    """
    found: dict[int, tuple[int, ...]] = {}
    for index, pending in enumerate(matched.all_pending):
        suspects = _suspects(pending, conditions)
        if _own_kind(matched, pending, suspects) is not None:
            found[index] = ()
        elif suspects:
            found[index] = suspects
    return found


def find_roots(analysis: WaitAnalysis, waits_for: Mapping[int, Sequence[int]]) -> list[Finding]:
    """Return the root causes of a run; ``waits_for`` is the result of :func:`awaited_ranks`."""
    return _Finding(analysis, waits_for).roots()


def _suspects(pending: PendingCollective, conditions: Mapping[int, RankCondition]) -> tuple[int, ...]:
    """Return the ranks that block a collective. In a group of two, the rank that does not wait blocks it."""
    gone = [n for n in pending.unheard if n not in conditions or conditions[n].kind in _GONE]
    is_other = len(pending.unheard) == 1 and len(pending.group.numbers) == 2
    if not pending.missing and is_other and not pending.group.is_inferred:
        gone = list(pending.unheard)
    return tuple(sorted({*pending.missing, *gone}))


def _own_kind(matched: Matched, pending: PendingCollective, suspects: Sequence[int]) -> Topic | None:
    """Return the topic of a collective that is a root cause itself; None if it waits for ranks or nothing is wrong."""
    if difference_of(pending) is not None:
        return Topic.CONFLICT
    if _is_lonely(pending, matched):
        return Topic.LONELY
    if pending.has_peer and pending.peer is None and not _is_met(pending, matched):
        return Topic.PEERLESS
    if suspects:
        return None
    if pending.unheard:
        return Topic.DOUBTFUL
    is_whole = pending.has_peer or set(pending.came) == set(pending.calls)
    return Topic.COMPLETE if is_whole else None


def _is_lonely(pending: PendingCollective, matched: Matched) -> bool:
    group = pending.group
    if group.is_inferred or pending.has_peer or len(group.members) != 1:
        return False
    size = max([len(group.numbers), *(member.seen.size or 0 for member in group.members.values())])
    others = [number for number in group.numbers if number not in group.members]
    members = [one for number, one in matched.roster.items() if number not in group.members and one.reports_collectives]
    if size < 2 or not members:
        return False
    return all(number in matched.roster and matched.roster[number].reports_collectives for number in others)


def _is_met(pending: PendingCollective, matched: Matched) -> bool:
    """Return True if another rank of the group is in the other half of a send or receive with an unknown peer."""
    return any(
        other.group is pending.group
        and has_peer(next(iter(other.calls.values())))
        and other.is_receive is not pending.is_receive
        for other in matched.all_pending
    )


class _Finding:
    def __init__(self, analysis: WaitAnalysis, waits_for: Mapping[int, Sequence[int]]) -> None:
        self._analysis = analysis
        self._pending = analysis.matched.all_pending
        self._waits_for = {index: ranks for index, ranks in waits_for.items() if ranks}
        self._alone = [index for index, ranks in waits_for.items() if not ranks]
        self._roots: list[Finding] = []
        self._nodes: list[list[Node]] = []
        """Nodes of each root cause."""
        self._taken: set[int] = set()
        """Indices of collectives that belong to a root cause."""

    def roots(self) -> list[Finding]:
        matched = self._analysis.matched
        self._blame()
        self._close_cycles()
        for index in self._alone:
            pending = self._pending[index]
            kind = _own_kind(matched, pending, _suspects(pending, self._analysis.conditions))
            self._add(_alone(pending, kind or Topic.COMPLETE), [index])
        self._find_those_behind()
        return self._roots

    def _add(self, root: Finding, taken: Sequence[int], *ranks: int) -> None:
        self._roots.append(root)
        self._nodes.append([*map(collective_node, taken), *map(rank_node, ranks)])
        self._taken.update(taken)

    def _blame(self) -> None:
        """Add a root cause for each set of ranks that block a collective and wait for no other rank.

        A rank that blocks several collectives is in only one root cause.
        """
        blamed: set[int] = set()
        for index in sorted(self._waits_for, key=lambda index: _weight(self._pending[index])):
            own = [number for number in self._waits_for[index] if self._is_end(number, self._waits_for[index])]
            fresh = tuple(number for number in own if number not in blamed)
            if fresh:
                blamed.update(fresh)
                self._add(_missing(self._pending[index], fresh), [index], *fresh)

    def _is_end(self, number: int, suspects: Sequence[int]) -> bool:
        """Return True if the rank itself is to blame, not another suspect or a collective that the rank waits for."""
        seen = {number}
        at: int | None = number
        while at is not None:
            condition = self._analysis.conditions.get(at)
            if condition is not None and condition.is_still:
                return True
            if any(node.kind is NodeKind.COLLECTIVE for node in self._analysis.graph.awaited(rank_node(at))):
                return False
            at = self._analysis.behind(at)
            if at in seen:
                # Ranks wait for resources of each other, outside of collectives. This cycle is the root cause.
                return True
            if at in suspects:
                return self._analysis.is_in_cycle(number)
            if at is not None:
                seen.add(at)
        return True

    def _close_cycles(self) -> None:
        for component in sorted(map(sorted, self._analysis.graph.components())):
            indices = [node.number for node in component if node.kind is NodeKind.COLLECTIVE]
            if not indices or len(component) < 2 or self._taken.intersection(indices):
                continue
            holding = [n for n in _ranks(component) if self._analysis.behind(n) is not None]
            if holding:
                index = min(indices, key=lambda index: _weight(self._pending[index]))
                culprits = tuple(n for n in holding if n in self._waits_for[index]) or tuple(holding)
                root = Finding(topic=Topic.HELD, collective=self._pending[index], ranks=culprits)
                self._add(root, indices, *_ranks(component))
            else:
                self._add_cycle(self._walk(indices), indices)

    def _add_cycle(self, cycle: Sequence[int], indices: Sequence[int]) -> None:
        """Add a cycle of collectives. If a send or receive waits for a rank in a collective, this rank is the cause.

        A rank that skips a send continues to the next collective, which the other ranks can't reach.
        """
        all_pending = [self._pending[index] for index in cycle]
        torn = next((one for one in all_pending if len(one.roots) > 1), None)
        if torn is not None:
            # A missing rank may have finished the call already: if the missing rank and the root have passed the same
            # root, the two may have exchanged their data before other ranks came. So no rank is reported as missing.
            whole = replace(torn, came=tuple(sorted({*torn.came, *torn.missing})), missing=())
            behind = [self._pending[index] for index in sorted(indices) if self._pending[index] is not torn]
            root = _alone(whole, Topic.CONFLICT)
            root.behind += behind
            self._add(root, indices)
            return
        exchange = next(filter(self._leads_to_collective, cycle), None)
        if exchange is None or all(pending.has_peer for pending in all_pending):
            ranks = tuple(sorted({number for one in all_pending for number in one.waiting}))
            root = Finding(topic=Topic.CYCLE, collective=all_pending[0], cycle=tuple(all_pending), ranks=ranks)
            self._add(root, indices)
            return
        root = _missing(self._pending[exchange], tuple(self._waits_for[exchange]))
        root.behind += [self._pending[index] for index in sorted(indices) if index != exchange]
        self._add(root, indices)

    def _leads_to_collective(self, index: int) -> bool:
        """Return True if a send or receive waits for a rank that is in a collective."""
        return self._pending[index].has_peer and any(not self._pending[one].has_peer for one in self._next(index))

    def _next(self, index: int) -> list[int]:
        """Return the collectives that the awaited ranks of collective ``index`` wait in."""
        awaited = [self._analysis.graph.awaited(rank_node(number)) for number in self._waits_for.get(index, ())]
        return [node.number for nodes in awaited for node in nodes if node.kind is NodeKind.COLLECTIVE]

    def _walk(self, indices: Sequence[int]) -> list[int]:
        """Return a cycle of collectives in a component, each waiting for a rank in the next one."""
        walked: list[int] = []
        index = min(indices, key=lambda index: _weight(self._pending[index]))
        while index not in walked:
            walked.append(index)
            following = [other for other in self._next(index) if other != index and other in indices]
            if not following:
                break
            index = min(following, key=lambda other: _weight(self._pending[other]))
        cycle = walked[walked.index(index) :]
        # Don't sort by age: with nearly equal ages, each snapshot would start the cycle at another collective.
        first = min(range(len(cycle)), key=lambda at: self._pending[cycle[at]].waiting)
        return [*cycle[first:], *cycle[:first]]

    def _find_those_behind(self) -> None:
        reached = self._analysis.graph.leading_to(self._nodes)
        for index in self._waits_for:
            root = reached.get(collective_node(index))
            if index not in self._taken and root is not None:
                self._roots[root].behind.append(self._pending[index])


def _alone(pending: PendingCollective, topic: Topic) -> Finding:
    """Return a finding about a collective that waits for no other one, with the ranks concerned."""
    found = Finding(topic=topic, collective=pending, ranks=pending.waiting[:1])
    if topic is Topic.DOUBTFUL:
        found.ranks = pending.unheard
    elif topic is Topic.CONFLICT:
        called = sides(pending)
        named = called if is_parting(called) else called[1:]
        found.ranks = tuple(sorted(number for _, numbers in named for number in numbers))
    elif topic is Topic.COMPLETE:
        found.ranks = tuple(sorted({*pending.waiting, *([pending.peer] if pending.peer is not None else [])}))
    return found


def _missing(pending: PendingCollective, ranks: tuple[int, ...]) -> Finding:
    return Finding(topic=Topic.NO_PARTNER if pending.has_peer else Topic.MISSING, collective=pending, ranks=ranks)


def _ranks(component: Sequence[Node]) -> list[int]:
    return [node.owner for node in component if node.kind is NodeKind.RANK]


def _weight(pending: PendingCollective) -> tuple[object, ...]:
    """Return a sort key: collectives with most waiting ranks first, then the oldest."""
    return -len(pending.calls), -(pending.age or 0.0), pending.group.label, pending.call, pending.waiting
