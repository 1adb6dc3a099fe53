"""The graph of waits: its circles, and what leads to which end."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dbg_client.hang.graph import Node, WaitGraph, collective_node, process_node, rank_node, thread_node

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=30)


def graph_of(edges: Sequence[tuple[int, int]]) -> WaitGraph:
    graph = WaitGraph()
    for waiter, awaited in edges:
        graph.wait(rank_node(waiter), rank_node(awaited))
    return graph


def reached(edges: Sequence[tuple[int, int]], start: int) -> set[int]:
    found: set[int] = set()
    to_go = [start]
    while to_go:
        at = to_go.pop()
        fresh = {b for a, b in edges if a == at} - found
        found |= fresh
        to_go += fresh
    return found


def numbers(component: Sequence[Node]) -> set[int]:
    return {node.owner for node in component}


@given(EDGES)
def test_ranks_are_in_one_component_if_each_waits_for_the_other(edges: list[tuple[int, int]]) -> None:
    graph = graph_of(edges)
    components = graph.components()
    there = {number for edge in edges for number in edge}
    assert sorted(number for one in components for number in numbers(one)) == sorted(there)
    for component in components:
        ranks = numbers(component)
        for number in ranks:
            behind = reached(edges, number)
            assert {one for one in behind if number in reached(edges, one)} | {number} == ranks
            assert graph.is_circle(component) == (number in behind)


@given(EDGES)
def test_a_component_stands_behind_those_that_it_leads_to(edges: list[tuple[int, int]]) -> None:
    place = {number: at for at, one in enumerate(graph_of(edges).components()) for number in numbers(one)}
    assert all(place[awaited] <= place[waiter] for waiter, awaited in edges)


@given(EDGES)
def test_who_leads_to_several_ends_is_told_with_the_first(edges: list[tuple[int, int]]) -> None:
    found = graph_of(edges).leading_to([[rank_node(0)], [rank_node(1)]])
    for number in {number for edge in edges for number in edge}:
        behind = reached(edges, number) | {number}
        assert found.get(rank_node(number)) == (0 if 0 in behind else 1 if 1 in behind else None)


def test_a_chain_of_ten_thousand_ranks_is_no_recursion() -> None:
    chain = [(number, number + 1) for number in range(10_000)]
    assert len(graph_of(chain).components()) == 10_001
    (circle,) = graph_of([*chain, (10_000, 0)]).components()
    assert len(circle) == 10_001


def test_of_two_edges_the_sure_one_counts_and_one_of_stacks_makes_a_circle_likely() -> None:
    graph = WaitGraph()
    rank, thread = rank_node(3), thread_node(3, 2)
    graph.wait(rank, thread, is_sure=False)
    graph.wait(rank, thread)
    graph.wait(thread, rank, is_sure=False)
    assert graph.is_sure([rank, process_node("gpu013", 7)])
    assert not graph.is_sure([rank, thread])
    graph.wait(thread, rank)
    assert graph.is_sure([rank, thread])
    assert graph.awaited(rank) == (thread,)
    assert graph.awaited(collective_node(0)) == ()
