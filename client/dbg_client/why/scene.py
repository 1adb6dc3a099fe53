"""One look at a run: its ranks, what each of them does, and the graph of their waits. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dbg_client.views.tree import file_line, own_frames
from dbg_client.why.collective_matching import Matched, PendingCollective
from dbg_client.why.condition import Condition, deadlocked, main_wait
from dbg_client.why.fitting import fitted
from dbg_client.why.graph import Node, NodeKind, WaitGraph, collective_node, process_node, rank_node, thread_node
from dbg_client.why.moving import Movement
from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.verdict import Certainty, NamedRanks, VerdictKind
from dbg_client.why.wait_text import MAX_NAME, MAX_TEXT, other_text, wait_text
from dbg_wire.errors import printable
from dbg_wire.records.evidence import OtherProcess, Relation, Target, ThreadWait, WaitKind

MAX_LINKS = 3
"""Waits behind each other that a sentence tells: further ones are evidence of the ranks that they lead to."""

_BLIND = frozenset({WaitKind.LOCK, WaitKind.DATA, WaitKind.LOOP, WaitKind.UNKNOWN, WaitKind.SLEEP})
"""Waits of which it may not be known who ends them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that the verdicts on one run are made from; ``texts`` are what the nodes that are no ranks do."""

    matched: Matched
    conditions: Mapping[int, Condition]
    names: NamedRanks
    graph: WaitGraph = field(default_factory=WaitGraph)
    texts: Mapping[Node, str] = field(default_factory=dict)
    moved: Movement = field(default_factory=Movement)

    @property
    def job(self) -> str:
        """Return the name of the job."""
        return self.matched.run[0]

    def sentence(self, numbers: Sequence[int], verb: str, reason: str = "", rest: str = "") -> str:
        """Return a sentence about some ranks, which says where a single one is if there is room."""
        return fitted(self.job, [self.names.described(numbers), self.names.ranks(numbers)], verb, reason, rest)

    def reason(self, number: int, links: int = MAX_LINKS) -> str:
        """Return what keeps a rank, and what keeps that in turn: ``waits for the end of thread pump, which …``."""
        condition = self.conditions.get(number)
        if condition is None:
            return "has never connected"
        said = [self._with_rank(number, condition)]
        node = rank_node(number)
        while said[0] and condition.kind is not VerdictKind.DEADLOCK and len(said) < links:
            following = [one for one in self.graph.awaited(node) if one.kind is not NodeKind.COLLECTIVE]
            texts = list(dict.fromkeys(map(self._does, following)))
            if not texts or "" in texts:
                break
            several = "" if len(following) == 1 else "each of " if len(texts) == 1 else "one of "
            said.append(f"{several}which {texts[0]}")
            node = following[0]
            if node.kind is NodeKind.RANK:
                # What keeps a rank that others wait for is a verdict of its own.
                break
        return ", ".join(said)

    def behind(self, number: int) -> int | None:
        """Return the rank that has what a rank waits for by itself, in no collective; None if none is known."""
        seen: set[Node] = set()
        node = rank_node(number)
        while node not in seen:
            seen.add(node)
            following = [one for one in self.graph.awaited(node) if one.kind is not NodeKind.COLLECTIVE]
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

    def pending_of(self, number: int) -> PendingCollective | None:
        """Return the first collective in which a rank waits."""
        return next((one for one in self.matched.standings if number in one.calls), None)

    def is_sure(self, numbers: Iterable[int]) -> bool:
        """Tell whether it is known, not made from stacks, what each of these ranks does."""
        return all(self.conditions[number].is_sure for number in numbers if number in self.conditions)

    def certainty(self, numbers: Iterable[int]) -> Certainty:
        """Return how it is known what these ranks do by themselves."""
        return Certainty.SURE if self.is_sure(numbers) else Certainty.LIKELY

    def ended_in(self, standings: Sequence[PendingCollective]) -> tuple[int, str] | None:
        """Return a rank of a circle of which a thread has ended, with that; None if there is none."""
        if all(standing.has_peer for standing in standings):
            return None
        awaited = sorted({number for standing in standings for number in standing.missing})
        found = [number for number in awaited if number in self.conditions and self.conditions[number].ended]
        return (found[0], self.conditions[found[0]].ended[-1]) if found else None

    def place(self, number: int) -> str:
        """Return where a rank is in the user's code: `` in data.py:17 wait_for_shard``; empty if it has not told."""
        own = own_frames(self.matched.roster[number].answer.frames)
        return f" in {file_line(own[-1])} {printable(own[-1].function, MAX_NAME)}" if own else ""

    def _does(self, node: Node) -> str:
        if node.kind is not NodeKind.RANK:
            return self.texts.get(node, "")
        standing = self.pending_of(node.owner)
        if standing is not None:
            return f"is in {printable(standing.label, MAX_TEXT)}"
        condition = self.conditions.get(node.owner)
        return condition.text if condition is not None else ""

    def _with_rank(self, number: int, condition: Condition) -> str:
        """Return what a rank is in, with the rank that it waits for in place of that one's process."""
        holder = self.behind(number)
        one = self.matched.roster.get(holder) if holder is not None else None
        if one is None or holder is None or condition.does is None:
            return condition.text
        return wait_text(condition.does, {one.rank.pid: holder})


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
    graph, texts = WaitGraph(), dict[Node, str]()
    others: dict[Node, OtherProcess] = {}
    hosts = _Processes(matched)
    for number, one in matched.roster.items():
        graph.add(rank_node(number))
        if not conditions[number].is_still:
            texts.update(_add_rank(graph, hosts, number, one, others))
    for child, condition in children:
        texts.update(_add_child(graph, hosts, child, condition, others))
    told = _with_circles(matched, graph, conditions, others)
    for index, suspects in waits_for.items():
        node = collective_node(index)
        for number in matched.standings[index].calls:
            if not told[number].is_still:
                graph.wait(rank_node(number), node)
        for number in suspects:
            graph.wait(node, rank_node(number), is_sure=matched.standings[index].is_recorded)
    return Scene(matched=matched, conditions=told, names=names, graph=graph, texts=texts, moved=moved)


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


def _add_rank(
    graph: WaitGraph, processes: _Processes, number: int, one: RankEvidence, others: dict[Node, OtherProcess]
) -> dict[Node, str]:
    """Add what the threads of a rank, and the processes that they need, wait for; return what these do."""
    texts: dict[Node, str] = {}
    if one.evidence is None:
        return texts
    nodes: dict[int, Node] = {}
    for wait in one.evidence.waits:
        if wait.number or wait.is_main:
            nodes[wait.number] = rank_node(number) if wait.is_main else thread_node(number, wait.number)
    for wait in one.evidence.waits:
        node = nodes.get(wait.number) if wait.number or wait.is_main else None
        if node is None:
            continue
        if not wait.is_main:
            texts[node] = wait_text(wait.does)
        for awaited in wait.awaits:
            if awaited in nodes:
                graph.wait(node, nodes[awaited], is_sure=wait.is_sure)
        if wait.holder is not None:
            graph.wait(node, processes.node(one.rank.host, wait.holder), is_sure=wait.is_sure)
    for other in one.evidence.others:
        node = processes.node(one.rank.host, other.pid)
        texts[node] = other_text(other)
        others[node] = other
        if other.holder is not None:
            graph.wait(node, processes.node(one.rank.host, other.holder))
    return texts


def _add_child(
    graph: WaitGraph,
    processes: _Processes,
    one: RankEvidence,
    condition: Condition,
    others: dict[Node, OtherProcess],
) -> dict[Node, str]:
    """Add what a process waits for that is not a rank; return what it does, which it knows better than others."""
    node, main = processes.node(one.rank.host, one.rank.pid), main_wait(one)
    if node.kind is not NodeKind.PROCESS:
        return {}
    if main is not None:
        others[node] = OtherProcess(pid=node.number, does=main.does)
    if main is not None and main.holder is not None and not condition.is_still:
        graph.wait(node, processes.node(one.rank.host, main.holder), is_sure=main.is_sure)
    text = condition.text or (wait_text(main.does) if main is not None else "")
    own = own_frames(one.answer.frames)
    if text and own and not condition.is_still and file_line(own[-1]) not in text:
        text = f"in {file_line(own[-1])} {printable(own[-1].function, MAX_NAME)} {text}"
    return {node: text} if text else {}


def _with_circles(
    matched: Matched, graph: WaitGraph, conditions: Mapping[int, Condition], others: Mapping[Node, OtherProcess]
) -> dict[int, Condition]:
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
        waits = _threads_of(matched.roster[number], component)
        is_told_by_main = len(component) == 1 and rank_node(number) in component
        threads = tuple(waits) if len(waits) == len(component) and not is_told_by_main else ()
        text = "" if threads or not told[number].text else _of_itself(matched, number, told[number], component, others)
        told[number] = deadlocked(told[number], threads or tuple(waits), text, is_sure=graph.is_sure(component))
    return told


def _of_itself(
    matched: Matched, number: int, condition: Condition, component: Sequence[Node], others: Mapping[Node, OtherProcess]
) -> str:
    text, process = condition.text, next((node for node in component if node.kind is NodeKind.PROCESS), None)
    named = condition.does.processes if condition.does is not None else ()
    if process is None:
        is_told = any(one.relation is Relation.ITSELF for one in named)
        return text if is_told else f"{text}, and so for itself"
    if not any(one.pid == process.number for one in named):
        return text
    other = others.get(process)
    if other is not None and other.does.target is Target.FULL_PIPE:
        return f"{text}, which {other_text(other, {matched.roster[number].rank.pid: number})}"
    return f"{text}, which waits for it in turn"


def _threads_of(one: RankEvidence, component: Sequence[Node]) -> list[ThreadWait]:
    waits = one.evidence.waits if one.evidence is not None else ()
    numbers = {node.number for node in component if node.kind is NodeKind.THREAD}
    has_main = any(node.kind is NodeKind.RANK for node in component)
    return [wait for wait in waits if (has_main if wait.is_main else wait.number in numbers and wait.number > 0)]
