"""Analysis of one run: its ranks, their conditions, and the wait-for graph. Pure.

An edge of the graph leads from a waiting node to the node that must act first. All paths end at sinks, which wait for
no other node, or in cycles (strongly connected components without an outgoing edge). These ends are the root causes of
all waits that lead to them.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dbg_client.views.tree import own_frames
from dbg_client.why.collective_matching import Matched, PendingCollective, sides
from dbg_client.why.condition import RankCondition, deadlocked, main_wait
from dbg_client.why.names import NamedRanks
from dbg_client.why.process_groups import ProcessGroup, RankEvidence, has_peer
from dbg_client.why.progress import JobProgress
from dbg_client.why.verdict import Certainty, VerdictKind
from dbg_wire.records.evidence import ActivityInfo, CollectiveSeen, CollectiveState, ThreadWait, WaitKind
from dbg_wire.records.ranks import Place

_BLIND = frozenset({WaitKind.LOCK, WaitKind.DATA, WaitKind.LOOP, WaitKind.UNKNOWN, WaitKind.SLEEP})
"""Kinds of waits whose awaited thread or process may be unknown."""


class NodeKind(enum.IntEnum):
    """Kind of a node. Nodes are sorted in the order of these values."""

    RANK = 0
    """A rank's main thread."""
    THREAD = 1
    """Another thread of a rank, or a task of its event loop."""
    PROCESS = 2
    """A process that is not a rank."""
    COLLECTIVE = 3


class Node(NamedTuple):
    """Node of the graph. ``owner`` is the rank or -1, ``number`` identifies the thread, process or collective."""

    kind: NodeKind
    owner: int
    number: int = 0
    host: str = ""


def rank_node(number: int) -> Node:
    """Return the node of a rank's main thread."""
    return Node(NodeKind.RANK, number)


def thread_node(rank: int, number: int) -> Node:
    """Return the node of another thread of a rank; the rank assigns the number."""
    return Node(NodeKind.THREAD, rank, number)


def process_node(host: str, pid: int) -> Node:
    """Return the node of a process that is not a rank."""
    return Node(NodeKind.PROCESS, -1, pid, host)


def collective_node(index: int) -> Node:
    """Return the node of a pending collective, by its index in the run."""
    return Node(NodeKind.COLLECTIVE, -1, index)


class WaitGraph:
    """Wait-for graph. An edge is sure, or inferred from stacks only."""

    def __init__(self) -> None:
        self._edges: dict[Node, dict[Node, bool]] = {}

    def add(self, node: Node) -> None:
        """Add a node without edges."""
        self._edges.setdefault(node, {})

    def wait(self, waiter: Node, awaited: Node, *, is_sure: bool = True) -> None:
        """Add an edge. A sure edge replaces an inferred one."""
        self.add(awaited)
        known = self._edges.setdefault(waiter, {})
        known[awaited] = is_sure or known.get(awaited, False)

    def awaited(self, node: Node) -> Sequence[Node]:
        """Return the nodes that a node waits for, in the order of their addition."""
        return tuple(self._edges.get(node, ()))

    def is_sure(self, nodes: Sequence[Node]) -> bool:
        """Return True if all edges between these nodes are sure."""
        among = set(nodes)
        return all(sure for node in nodes for to, sure in self._edges.get(node, {}).items() if to in among)

    def components(self) -> list[tuple[Node, ...]]:
        """Return the strongly connected components, each after the components that it leads to (Kosaraju's algorithm).

        The search does not recurse, because a chain of a thousand ranks is deeper than Python's stack.
        """
        before, seen = self._reversed(), set[Node]()
        found: list[tuple[Node, ...]] = []
        for start in reversed(self._finished()):
            component, to_go = [], [start]
            while to_go:
                node = to_go.pop()
                if node not in seen:
                    seen.add(node)
                    component.append(node)
                    to_go += before.get(node, ())
            if component:
                found.append(tuple(component))
        return found[::-1]

    def _finished(self) -> list[Node]:
        """Return the nodes in the finishing order of a depth-first search."""
        left: list[Node] = []
        seen: set[Node] = set()
        for start in self._edges:
            path = [] if start in seen else [(start, iter(self._edges[start]))]
            seen.add(start)
            while path:
                following = next((node for node in path[-1][1] if node not in seen), None)
                if following is None:
                    left.append(path.pop()[0])
                else:
                    seen.add(following)
                    path.append((following, iter(self._edges[following])))
        return left

    def is_cycle(self, component: Sequence[Node]) -> bool:
        """Return True if the nodes of a component wait for each other, or a single one for itself."""
        return len(component) > 1 or component[0] in self._edges.get(component[0], {})

    def leading_to(self, ends: Sequence[Sequence[Node]]) -> dict[Node, int]:
        """Return the nodes from which a chain of waits leads to a component of ``ends``, with the component's index.

        The nodes of the components are included. A node that leads to several components has the index of the first.
        """
        before = self._reversed()
        found: dict[Node, int] = {}
        for place, nodes in enumerate(ends):
            to_go = [node for node in nodes if node not in found]
            found.update(dict.fromkeys(to_go, place))
            while to_go:
                fresh = [node for node in before.get(to_go.pop(), ()) if node not in found]
                found.update(dict.fromkeys(fresh, place))
                to_go += fresh
        return found

    def _reversed(self) -> dict[Node, list[Node]]:
        before: defaultdict[Node, list[Node]] = defaultdict(list)
        for node, awaited in self._edges.items():
            for to in awaited:
                before[to].append(node)
        return before


@dataclass(frozen=True, slots=True)
class Doer:
    """Activity of a thread, a task, or a process that is not a rank.

    ``one`` and ``condition`` are set for a process that has an agent.
    """

    does: ActivityInfo | None
    one: RankEvidence | None = None
    condition: RankCondition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitAnalysis:
    """Basis of the verdicts on one run; ``doers`` describes the nodes that are not ranks."""

    matched: Matched
    conditions: Mapping[int, RankCondition]
    names: NamedRanks
    graph: WaitGraph = field(default_factory=WaitGraph)
    doers: Mapping[Node, Doer] = field(default_factory=dict)
    moved: JobProgress = field(default_factory=JobProgress)

    @property
    def job(self) -> str:
        """Name of the job."""
        return self.matched.run[0]

    def following(self, node: Node) -> list[Node]:
        """Return the nodes that a node waits for outside of collectives."""
        return [one for one in self.graph.awaited(node) if one.kind is not NodeKind.COLLECTIVE]

    def behind(self, number: int) -> int | None:
        """Return the rank that a rank waits for outside of collectives, also through other nodes; None if unknown."""
        seen: set[Node] = set()
        node = rank_node(number)
        while node not in seen:
            seen.add(node)
            following = self.following(node)
            if not following:
                return None
            node = following[0]
            if node.kind is NodeKind.RANK and node.owner != number:
                return node.owner
        return None

    def last_behind(self, number: int) -> int:
        """Return the last rank of the chain of waits that begins with this rank, outside of collectives."""
        seen: set[int] = set()
        while number not in seen and (holder := self.behind(number)) is not None:
            seen.add(number)
            number = holder
        return number

    def is_in_cycle(self, number: int) -> bool:
        """Return True if a rank waits for itself through other ranks, outside of collectives."""
        seen: set[int] = set()
        at = self.behind(number)
        while at is not None and at != number and at not in seen:
            seen.add(at)
            at = self.behind(at)
        return at == number

    def pending_of(self, number: int) -> PendingCollective | None:
        """Return the first pending collective of a rank, if any."""
        return next((one for one in self.matched.all_pending if number in one.calls), None)

    def is_sure(self, numbers: Iterable[int]) -> bool:
        """Return True if no condition of these ranks is inferred from stacks."""
        return all(self.conditions[number].is_sure for number in numbers if number in self.conditions)

    def certainty(self, numbers: Iterable[int]) -> Certainty:
        """Return SURE if all conditions of these ranks are reported, LIKELY if one of them is inferred from stacks."""
        return Certainty.SURE if self.is_sure(numbers) else Certainty.LIKELY


def analyse_waits(
    matched: Matched,
    conditions: Mapping[int, RankCondition],
    names: NamedRanks,
    moved: JobProgress,
    waits_for: Mapping[int, Sequence[int]],
    *,
    children: Sequence[tuple[RankEvidence, RankCondition]] = (),
) -> WaitAnalysis:
    """Return the analysis of a run; ``waits_for`` maps the index of a collective to the ranks that block it.

    ``children`` are processes that are not ranks, but that ranks may wait for.
    """
    graph = WaitGraph()
    doers: dict[Node, Doer] = {}
    hosts = _Processes(matched)
    for number, one in matched.roster.items():
        graph.add(rank_node(number))
        if not conditions[number].is_still:
            doers.update(_add_rank(graph, hosts, number, one))
    for child, condition in children:
        doers.update(_add_child(graph, hosts, child, condition))
    conditions_now = _with_cycles(matched, graph, conditions)
    for index, suspects in waits_for.items():
        node = collective_node(index)
        for number in matched.all_pending[index].calls:
            if not conditions_now[number].is_still:
                graph.wait(rank_node(number), node)
        for number in suspects:
            graph.wait(node, rank_node(number), is_sure=matched.all_pending[index].is_recorded)
    return WaitAnalysis(matched=matched, conditions=conditions_now, names=names, graph=graph, doers=doers, moved=moved)


class _Processes:
    """Maps processes to nodes. A process is a rank if its pid belongs to only one rank of the host."""

    def __init__(self, matched: Matched) -> None:
        ranks: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for number, one in matched.roster.items():
            ranks[one.rank.host, one.rank.pid].append(number)
        # Containers on one host may each have their own pid namespace.
        self._ranks = {process: numbers[0] for process, numbers in ranks.items() if len(numbers) == 1}

    def node(self, host: str, pid: int) -> Node:
        number = self._ranks.get((host, pid))
        return rank_node(number) if number is not None else process_node(host, pid)


def _add_rank(graph: WaitGraph, processes: _Processes, number: int, one: RankEvidence) -> dict[Node, Doer]:
    """Add the waits of a rank's threads and related processes. Return the activity of all but the main thread."""
    doers: dict[Node, Doer] = {}
    if one.evidence is None:
        return doers
    nodes: dict[int, Node] = {}
    for wait in one.evidence.waits:
        if wait.number or wait.is_main:
            nodes[wait.number] = rank_node(number) if wait.is_main else thread_node(number, wait.number)
    for wait in one.evidence.waits:
        node = nodes.get(wait.number) if wait.number or wait.is_main else None
        if node is None:
            continue
        if not wait.is_main:
            doers[node] = Doer(wait.does)
        for awaited in wait.awaits:
            if awaited in nodes:
                graph.wait(node, nodes[awaited], is_sure=wait.is_sure)
        if wait.holder is not None:
            graph.wait(node, processes.node(one.rank.host, wait.holder), is_sure=wait.is_sure)
    for other in one.evidence.others:
        node = processes.node(one.rank.host, other.pid)
        doers[node] = Doer(other.does)
        if other.holder is not None:
            graph.wait(node, processes.node(one.rank.host, other.holder))
    return doers


def _add_child(
    graph: WaitGraph, processes: _Processes, one: RankEvidence, condition: RankCondition
) -> dict[Node, Doer]:
    """Add the waits of a process that is not a rank but has an agent, and return the process's report about itself.

    This report replaces a rank's report about the process, because a process knows more about itself.
    """
    node, main = processes.node(one.rank.host, one.rank.pid), main_wait(one)
    if node.kind is not NodeKind.PROCESS:
        return {}
    if main is not None and main.holder is not None and not condition.is_still:
        graph.wait(node, processes.node(one.rank.host, main.holder), is_sure=main.is_sure)
    return {node: Doer(main.does if main is not None else None, one, condition)}


def _with_cycles(
    matched: Matched, graph: WaitGraph, conditions: Mapping[int, RankCondition]
) -> dict[int, RankCondition]:
    """Return the conditions, with DEADLOCK for ranks whose own threads and processes wait for each other."""
    conditions_now = dict(conditions)
    for component in sorted(map(sorted, graph.components())):
        owners = {node.owner for node in component if node.kind is not NodeKind.PROCESS}
        if not graph.is_cycle(component) or len(owners) != 1:
            continue
        (number,) = owners
        main = main_wait(matched.roster[number])
        # If the main thread does not wait for the threads of the deadlock, the deadlock does not explain its wait.
        if conditions_now[number].kind is VerdictKind.DEADLOCK or (
            rank_node(number) not in component and (main is None or main.kind not in _BLIND)
        ):
            continue
        waits = tuple(_threads_of(matched.roster[number], component))
        is_main_alone = len(component) == 1 and rank_node(number) in component
        by_threads = (len(waits) == len(component) and not is_main_alone) or conditions_now[number].does is None
        is_sure = graph.is_sure(component)
        conditions_now[number] = deadlocked(conditions_now[number], waits, by_threads=by_threads, is_sure=is_sure)
    return conditions_now


def _threads_of(one: RankEvidence, component: Sequence[Node]) -> list[ThreadWait]:
    waits = one.evidence.waits if one.evidence is not None else ()
    numbers = {node.number for node in component if node.kind is NodeKind.THREAD}
    has_main = any(node.kind is NodeKind.RANK for node in component)
    return [wait for wait in waits if (has_main if wait.is_main else wait.number in numbers and wait.number > 0)]


# ------------------------------------------------------------------------------------------- places of differing calls


def last_call(one: RankEvidence, group: ProcessGroup | None) -> CollectiveSeen | None:
    """Return the latest collective that a rank has finished, within ``group`` if given; None if unknown."""
    name = group.name if group is not None else None
    done = [
        call
        for call in (one.evidence.collectives if one.evidence is not None else ())
        if call.state is CollectiveState.COMPLETED and not has_peer(call) and (name is None or call.group == name)
    ]
    return max(done, key=lambda call: (call.sequence or 0, -(call.age or 0.0)), default=None)


def went_on(analysis: WaitAnalysis, pending: PendingCollective, usual: str) -> bool:
    """Return True if all ranks have just finished the collective ``usual``, and their next calls are of two kinds."""
    if pending.sequence is None or len(sides(pending)) != 2:
        return False
    before = [last_call(analysis.matched.roster[number], pending.group) for number in pending.calls]
    return all(call is not None and call.name == usual and call.sequence == pending.sequence - 1 for call in before)


def place_of_call(analysis: WaitAnalysis, pending: PendingCollective, numbers: Sequence[int]) -> Place | None:
    """Return the most frequent place of these ranks' calls of the collective; None if unknown."""
    places = Counter(place for n in numbers if (place := _called_at(analysis, pending, n)) is not None)
    return places.most_common(1)[0][0] if places else None


def _called_at(analysis: WaitAnalysis, pending: PendingCollective, number: int) -> Place | None:
    place, one = pending.all_calls[number].place, analysis.matched.roster[number]
    if place is not None or number not in pending.calls or not one.is_in_collective:
        return place
    return next(reversed(own_frames(one.answer.frames)), None)
