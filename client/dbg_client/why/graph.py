"""The graph of waits of one run: who waits for whom, and where all of that ends. Pure.

An edge leads from a node to one without which its wait does not end. Following the edges, one comes to the ends: nodes
that wait for no other, and circles of nodes that wait for each other (strongly connected components without an edge
out of them). An end is the cause of everything that leads to it.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Sequence
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
