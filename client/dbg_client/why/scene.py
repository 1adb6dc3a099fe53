"""One look at a run: its ranks, what each of them does, and the graph of their waits. Pure.

An edge of the graph leads from a node to one without which its wait does not end. Following the edges, one comes to the
ends: nodes that wait for no other, and circles of nodes that wait for each other (strongly connected components without
an edge out of them). An end is the cause of everything that leads to it.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dbg_client.views.tree import own_frames
from dbg_client.why.collective_matching import Matched, PendingCollective, sides
from dbg_client.why.condition import Condition, deadlocked, main_wait
from dbg_client.why.moving import Movement
from dbg_client.why.names import NamedRanks
from dbg_client.why.process_groups import ProcessGroup, RankEvidence, has_peer
from dbg_client.why.verdict import Certainty, VerdictKind
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, Doing, ThreadWait, WaitKind
from dbg_wire.records.ranks import Place

_BLIND = frozenset({WaitKind.LOCK, WaitKind.DATA, WaitKind.LOOP, WaitKind.UNKNOWN, WaitKind.SLEEP})
"""Waits of which it may not be known who ends them."""


class NodeKind(enum.IntEnum):
    """What a node stands for; the order is that of an answer."""

    RANK = 0
    """A rank's main thread."""
    THREAD = 1
    """Another thread of a rank, or a task of its event loop."""
    PROCESS = 2
    """A process that is no rank."""
    COLLECTIVE = 3


class Node(NamedTuple):
    """One node: ``owner`` is the rank, or -1 where none is; ``number`` that of the thread, process or collective."""

    kind: NodeKind
    owner: int
    number: int = 0
    host: str = ""


def rank_node(number: int) -> Node:
    """Return the node of a rank's main thread."""
    return Node(NodeKind.RANK, number)


def thread_node(rank: int, number: int) -> Node:
    """Return the node of another thread of a rank, by the number that the rank has given it."""
    return Node(NodeKind.THREAD, rank, number)


def process_node(host: str, pid: int) -> Node:
    """Return the node of a process that is no rank."""
    return Node(NodeKind.PROCESS, -1, pid, host)


def collective_node(index: int) -> Node:
    """Return the node of a pending collective, by its place among those of the run."""
    return Node(NodeKind.COLLECTIVE, -1, index)


class WaitGraph:
    """Nodes, and for each node those that it waits for; an edge is sure, or made from stacks alone."""

    def __init__(self) -> None:
        self._edges: dict[Node, dict[Node, bool]] = {}

    def add(self, node: Node) -> None:
        """Add a node that may wait for nothing."""
        self._edges.setdefault(node, {})

    def wait(self, waiter: Node, awaited: Node, *, is_sure: bool = True) -> None:
        """Add an edge; of two between the same nodes the sure one counts."""
        self.add(awaited)
        known = self._edges.setdefault(waiter, {})
        known[awaited] = is_sure or known.get(awaited, False)

    def awaited(self, node: Node) -> Sequence[Node]:
        """Return what a node waits for, in the order in which it was told."""
        return tuple(self._edges.get(node, ()))

    def is_sure(self, nodes: Sequence[Node]) -> bool:
        """Tell whether all edges among these nodes are sure."""
        among = set(nodes)
        return all(sure for node in nodes for to, sure in self._edges.get(node, {}).items() if to in among)

    def components(self) -> list[tuple[Node, ...]]:
        """Return the strongly connected components, each behind those that it leads to (Kosaraju's algorithm).

        There is no recursion: a chain of a thousand ranks is deeper than Python's stack.
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
        """Return the nodes in the order in which a depth-first search leaves them."""
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

    def is_circle(self, component: Sequence[Node]) -> bool:
        """Tell whether the nodes of a component wait for each other, or a single one for itself."""
        return len(component) > 1 or component[0] in self._edges.get(component[0], {})

    def leading_to(self, ends: Sequence[Sequence[Node]]) -> dict[Node, int]:
        """Return for each node from which edges lead to an end, or that is of it, the place of the first such end."""
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
    """What a thread, a task or a process that is no rank does.

    ``one`` and ``condition`` are those of a process that has an agent.
    """

    does: Doing | None
    one: RankEvidence | None = None
    condition: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that the verdicts on one run are made from; ``doers`` are the nodes that are no ranks."""

    matched: Matched
    conditions: Mapping[int, Condition]
    names: NamedRanks
    graph: WaitGraph = field(default_factory=WaitGraph)
    doers: Mapping[Node, Doer] = field(default_factory=dict)
    moved: Movement = field(default_factory=Movement)

    @property
    def job(self) -> str:
        """Return the name of the job."""
        return self.matched.run[0]

    def following(self, node: Node) -> list[Node]:
        """Return what a node waits for by itself, in no collective."""
        return [one for one in self.graph.awaited(node) if one.kind is not NodeKind.COLLECTIVE]

    def behind(self, number: int) -> int | None:
        """Return the rank that has what a rank waits for by itself, in no collective; None if none is known."""
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
        """Return the rank at the end of a chain of ranks each of which waits for what the next one has."""
        seen: set[int] = set()
        while number not in seen and (holder := self.behind(number)) is not None:
            seen.add(number)
            number = holder
        return number

    def is_in_circle(self, number: int) -> bool:
        """Return whether a rank waits, over others, for what it has itself, in no collective."""
        seen: set[int] = set()
        at = self.behind(number)
        while at is not None and at != number and at not in seen:
            seen.add(at)
            at = self.behind(at)
        return at == number

    def pending_of(self, number: int) -> PendingCollective | None:
        """Return the first collective in which a rank waits."""
        return next((one for one in self.matched.standings if number in one.calls), None)

    def is_sure(self, numbers: Iterable[int]) -> bool:
        """Tell whether it is known, not made from stacks, what each of these ranks does."""
        return all(self.conditions[number].is_sure for number in numbers if number in self.conditions)

    def certainty(self, numbers: Iterable[int]) -> Certainty:
        """Return how it is known what these ranks do by themselves."""
        return Certainty.SURE if self.is_sure(numbers) else Certainty.LIKELY


def set_scene(
    matched: Matched,
    conditions: Mapping[int, Condition],
    names: NamedRanks,
    moved: Movement,
    waits_for: Mapping[int, Sequence[int]],
    *,
    children: Sequence[tuple[RankEvidence, Condition]] = (),
) -> Scene:
    """Return the scene of a run; ``waits_for`` are the ranks without which a collective, by its place, can't end.

    ``children`` are processes that are not ranks, for which ranks may wait.
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
    told = _with_circles(matched, graph, conditions)
    for index, suspects in waits_for.items():
        node = collective_node(index)
        for number in matched.standings[index].calls:
            if not told[number].is_still:
                graph.wait(rank_node(number), node)
        for number in suspects:
            graph.wait(node, rank_node(number), is_sure=matched.standings[index].is_recorded)
    return Scene(matched=matched, conditions=told, names=names, graph=graph, doers=doers, moved=moved)


class _Processes:
    """The nodes of processes: a rank's where the number is one rank's alone on its host."""

    def __init__(self, matched: Matched) -> None:
        ranks: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for number, one in matched.roster.items():
            ranks[one.rank.host, one.rank.pid].append(number)
        # Containers of one host may count their processes each for itself.
        self._ranks = {process: numbers[0] for process, numbers in ranks.items() if len(numbers) == 1}

    def node(self, host: str, pid: int) -> Node:
        number = self._ranks.get((host, pid))
        return rank_node(number) if number is not None else process_node(host, pid)


def _add_rank(graph: WaitGraph, processes: _Processes, number: int, one: RankEvidence) -> dict[Node, Doer]:
    """Add what the threads of a rank, and the processes that they need, wait for; return what these do."""
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


def _add_child(graph: WaitGraph, processes: _Processes, one: RankEvidence, condition: Condition) -> dict[Node, Doer]:
    """Add what a process waits for that is not a rank; return what it does, which it knows better than others."""
    node, main = processes.node(one.rank.host, one.rank.pid), main_wait(one)
    if node.kind is not NodeKind.PROCESS:
        return {}
    if main is not None and main.holder is not None and not condition.is_still:
        graph.wait(node, processes.node(one.rank.host, main.holder), is_sure=main.is_sure)
    return {node: Doer(main.does if main is not None else None, one, condition)}


def _with_circles(matched: Matched, graph: WaitGraph, conditions: Mapping[int, Condition]) -> dict[int, Condition]:
    """Return the conditions, with those of ranks whose own threads and processes wait for each other."""
    told = dict(conditions)
    for component in sorted(map(sorted, graph.components())):
        owners = {node.owner for node in component if node.kind is not NodeKind.PROCESS}
        if not graph.is_circle(component) or len(owners) != 1:
            continue
        (number,) = owners
        main = main_wait(matched.roster[number])
        # A thread that nobody waits for is no reason of a main thread that goes on.
        if told[number].kind is VerdictKind.DEADLOCK or (
            rank_node(number) not in component and (main is None or main.kind not in _BLIND)
        ):
            continue
        waits = tuple(_threads_of(matched.roster[number], component))
        is_main_alone = len(component) == 1 and rank_node(number) in component
        by_threads = (len(waits) == len(component) and not is_main_alone) or told[number].does is None
        is_sure = graph.is_sure(component)
        told[number] = deadlocked(told[number], waits, by_threads=by_threads, is_sure=is_sure)
    return told


def _threads_of(one: RankEvidence, component: Sequence[Node]) -> list[ThreadWait]:
    waits = one.evidence.waits if one.evidence is not None else ()
    numbers = {node.number for node in component if node.kind is NodeKind.THREAD}
    has_main = any(node.kind is NodeKind.RANK for node in component)
    return [wait for wait in waits if (has_main if wait.is_main else wait.number in numbers and wait.number > 0)]


# ------------------------------------------------------------------------------------------- places of differing calls


def last_call(one: RankEvidence, group: ProcessGroup | None) -> CollectiveSeen | None:
    """Return the last collective that a rank has finished, of this group if it tells; None if unknown."""
    name = group.name if group is not None else None
    done = [
        call
        for call in (one.evidence.collectives if one.evidence is not None else ())
        if call.state is CollectiveState.COMPLETED and not has_peer(call) and (name is None or call.group == name)
    ]
    return max(done, key=lambda call: (call.sequence or 0, -(call.age or 0.0)), default=None)


def went_on(scene: Scene, standing: PendingCollective, usual: str) -> bool:
    """Tell whether all ranks have finished the usual call just before, which most of them repeat."""
    if standing.sequence is None or len(sides(standing)) != 2:
        return False
    before = [last_call(scene.matched.roster[number], standing.group) for number in standing.calls]
    return all(call is not None and call.name == usual and call.sequence == standing.sequence - 1 for call in before)


def place_of_call(scene: Scene, standing: PendingCollective, numbers: Sequence[int]) -> Place | None:
    """Return where most of these ranks have called it; None if they don't tell."""
    places = Counter(place for n in numbers if (place := _called_at(scene, standing, n)) is not None)
    return places.most_common(1)[0][0] if places else None


def _called_at(scene: Scene, standing: PendingCollective, number: int) -> Place | None:
    place, one = standing.all_calls[number].place, scene.matched.roster[number]
    if place is not None or number not in standing.calls or not one.is_in_collective:
        return place
    return next(reversed(own_frames(one.answer.frames)), None)
