"""The graph of waits of one run: who waits for whom, and where all of that ends. Pure.

An edge leads from a node to one without which its wait does not end. Following the edges, one comes to the ends: nodes
that wait for no other, and circles of nodes that wait for each other (strongly connected components without an edge
out of them). An end is the cause of everything that leads to it.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple


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
        """Return the strongly connected components, each behind those that it leads to (Tarjan's algorithm)."""
        return list(_Tarjan(self._edges).components())

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


class _Tarjan:
    """Tarjan's algorithm without recursion: a chain of a thousand ranks is deeper than Python's stack."""

    def __init__(self, edges: dict[Node, dict[Node, bool]]) -> None:
        self._edges = edges
        self._index: dict[Node, int] = {}
        self._low: dict[Node, int] = {}
        self._open: list[Node] = []
        self._is_open: set[Node] = set()

    def components(self) -> Iterator[tuple[Node, ...]]:
        for node in self._edges:
            if node not in self._index:
                yield from self._from(node)

    def _from(self, start: Node) -> Iterator[tuple[Node, ...]]:
        path = [(start, self._enter(start))]
        while path:
            node, left = path[-1]
            following = next(left, None)
            if following is None:
                path.pop()
                if path:
                    above = path[-1][0]
                    self._low[above] = min(self._low[above], self._low[node])
                if self._low[node] == self._index[node]:
                    yield self._close(node)
            elif following not in self._index:
                path.append((following, self._enter(following)))
            elif following in self._is_open:
                self._low[node] = min(self._low[node], self._index[following])

    def _enter(self, node: Node) -> Iterator[Node]:
        self._index[node] = self._low[node] = len(self._index)
        self._open.append(node)
        self._is_open.add(node)
        return iter(self._edges[node])

    def _close(self, first: Node) -> tuple[Node, ...]:
        at = len(self._open) - 1
        while self._open[at] != first:
            at -= 1
        component = tuple(self._open[at:])
        del self._open[at:]
        self._is_open.difference_update(component)
        return component
