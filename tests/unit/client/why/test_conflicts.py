"""Calls of one collective that differ: by their names, their roots, their data, and by a loop that some have left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.why.collective_matching import Difference, difference_of, match_collectives, sides
from dbg_client.why.collectives import collectives_document, show_collectives
from dbg_client.why.explain import JobSnapshot, explain
from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.sentences import sentence_of
from dbg_client.why.show import evidence_of
from dbg_client.why.verdict import Verdict, VerdictKind
from dbg_client.why.wait_analysis import Node, WaitGraph, collective_node, process_node, rank_node, thread_node
from dbg_wire.records.evidence import (
    Activity,
    ActivityInfo,
    CollectiveSeen,
    Evidence,
    GroupSeen,
    SourceSeen,
    ThreadWait,
)
from dbg_wire.records.ranks import Place
from tests.conftest import Approved
from tests.support.rank_evidence import MAIN, call, done, elsewhere, group, rank_with, silent, waiting

TORCH = Place(file="/venv/site-packages/torch/distributed/distributed_c10d.py", line=9, function="all_reduce")


def at(number: int, seen: CollectiveSeen, *frames: Place) -> RankEvidence:
    """Return a rank whose main thread is in a collective, below these frames."""
    stack = (*frames, TORCH.replace(function=seen.name))
    one = rank_with(number, groups=[group(at=4)], calls=[seen, done(4)], frames=stack, age=60.0)
    wait = ThreadWait(thread="MainThread", does=ActivityInfo(what=Activity.COLLECTIVE), is_main=True, frames=stack)
    assert one.evidence is not None
    return replace(one, evidence=replace(one.evidence, waits=(wait,)))


def verdict_on(*everybody: RankEvidence) -> Verdict:
    return explain([JobSnapshot(at=0.0, everybody=everybody)], 0.0).verdicts[0]


def of(*calls: CollectiveSeen) -> tuple[Difference | None, list[tuple[str, int | None, int | None, list[int]]]]:
    """Return in what calls of ranks 0 and on differ, and how."""
    rest = range(len(calls), 4)
    everybody = [
        rank_with(n, groups=[group(at=4)], calls=[one]) for n, one in enumerate([*calls, *(calls[-1] for _ in rest)])
    ]
    (pending,) = match_collectives(everybody)[0].all_pending
    return difference_of(pending), [(one.name, one.root, one.size, numbers) for one, numbers in sides(pending)]


def test_names_are_compared_before_roots_and_roots_before_data() -> None:
    assert of(call(5), call(5)) == (None, [("all_reduce", None, 4096, [0, 1, 2, 3])])
    assert of(call(5, "barrier", root=1), call(5, root=0))[0] is Difference.NAME
    assert of(call(5, "broadcast", root=1, size=8), call(5, "broadcast", root=0)) == (
        Difference.ROOT,
        [("broadcast", 0, 4096, [1, 2, 3]), ("broadcast", 1, 8, [0])],
    )
    assert of(call(5, size=8), call(5)) == (
        Difference.DATA,
        [("all_reduce", None, 4096, [1, 2, 3]), ("all_reduce", None, 8, [0])],
    )
    assert of(call(5, "all_to_all", size=8), call(5, "all_to_all"))[0] is None


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
def test_components_are_listed_after_those_that_they_lead_to(edges: list[tuple[int, int]]) -> None:
    graph = graph_of(edges)
    components = list(map(numbers, graph.components()))
    place = {number: at for at, one in enumerate(components) for number in one}
    assert all(place[awaited] <= place[waiter] for waiter, awaited in edges)
    found = graph.leading_to([[rank_node(0)], [rank_node(1)]])
    for number in place:
        behind = reached(edges, number)
        assert {one for one in behind if number in reached(edges, one)} | {number} == components[place[number]]
        ends = behind | {number}
        assert found.get(rank_node(number)) == (0 if 0 in ends else 1 if 1 in ends else None)


def test_a_chain_of_ten_thousand_ranks_needs_no_recursion() -> None:
    chain = [(number, number + 1) for number in range(10_000)]
    assert len(graph_of(chain).components()) == 10_001
    (cycle,) = graph_of([*chain, (10_000, 0)]).components()
    assert len(cycle) == 10_001


def test_a_cycle_is_sure_only_if_each_of_its_edges_is_sure() -> None:
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


def test_a_larger_tensor_is_found_though_other_ranks_have_continued(approved: Approved) -> None:
    waits = [
        rank_with(n, groups=[group(at=4)], calls=[call(5), done(4, shapes="[1024]", size=4096)], age=60.0)
        for n in (0, 1, 3)
    ]
    larger = rank_with(2, groups=[group(at=3)], calls=[call(4, shapes="[2048]", size=8192)], age=60.0)

    (verdict,) = explain([JobSnapshot(at=0.0, everybody=[*waits, larger])], 0.0).verdicts

    assert (verdict.kind, verdict.ranks, verdict.others) == (VerdictKind.MISMATCH, (2,), (0, 1, 3))
    assert (verdict.collective, verdict.sequence) == ("all_reduce", 4)
    assert sentence_of(verdict).startswith(
        "rank 2 (gpu013) passed float32, 8 KiB [2048] to all_reduce #4 of dp_0, where"
    )
    approved(evidence_of(verdict))


OFF = Evidence(sources=(SourceSeen(library="torch", version="2.4.0", limitation="it has no recorder"),))
RECEIVING = rank_with(0, groups=[group()], calls=[call(1, "recv", peer=1, is_receive=True)])


@pytest.mark.parametrize(
    "everybody",
    [
        pytest.param([waiting(0), waiting(1), waiting(3), elsewhere(2)], id="how many have called it"),
        pytest.param([elsewhere(n) for n in range(4)], id="empty columns are left out"),
        pytest.param(
            [RECEIVING, rank_with(1, groups=[group()]), silent(2)], id="a receive, none yet, and a silent rank"
        ),
        pytest.param([rank_with(0, evidence=OFF, world_size=1)], id="a library without groups"),
    ],
)
def test_a_table_has_a_row_for_each_group_and_call(approved: Approved, everybody: list[RankEvidence]) -> None:
    approved(show_collectives(match_collectives(everybody), color=False))


def test_the_document_names_all_ranks() -> None:
    world = GroupSeen(library="mpi4py", name="w", title="MPI_COMM_WORLD", size=4)
    ranks = [rank_with(n, groups=[world], calls=[call(None, "Allreduce", group="w")]) for n in (0, 1, 2)]

    document = collectives_document(match_collectives([*ranks, rank_with(3, groups=[world])]))

    assert document == {
        "schema": 1,
        "asked": 4,
        "answered": 4,
        "groups": [
            {
                "job": "4711.0",
                "group": "MPI_COMM_WORLD",
                "library": "mpi4py",
                "backend": None,
                "ranks": "0-3",
                "collective": "Allreduce",
                "sequence": None,
                "peer": None,
                "called": "0-2",
                "missing": "3",
                "types": "float32",
                "shapes": "[1024]",
                "bytes": 4096,
                "age": 60.0,
            }
        ],
        "notes": [],
    }


def test_a_ring_of_receives_without_sends_is_reported(approved: Approved) -> None:
    ring = [
        rank_with(n, groups=[group()], calls=[call(None, "recv", peer=(n - 1) % 4, is_receive=True)], age=60.0)
        for n in range(4)
    ]

    (verdict,) = explain([JobSnapshot(at=0.0, everybody=ring)], 0.0).verdicts

    assert (verdict.kind, verdict.ranks) == (VerdictKind.PARTNER, (0, 1, 2, 3))
    approved(sentence_of(verdict))


STEP, EVALUATE = MAIN, Place(file="/home/me/train.py", line=77, function="evaluate")


@pytest.mark.parametrize(
    ("others", "ranks"),
    [((call(5, place=STEP),), (0, 1)), ((call(5, place=STEP), call(5, place=STEP)), (1,))],
    ids=["two ranks", "three ranks"],
)
@pytest.mark.parametrize("odd", [call(5, "all_gather"), call(5, size=4, shapes="[]")], ids=["name", "data"])
def test_both_places_are_named_and_no_rank_is_blamed_without_a_majority(
    approved: Approved, others: Sequence[CollectiveSeen], ranks: Sequence[int], odd: CollectiveSeen
) -> None:
    members = f"0-{len(others)}"
    calls = [others[0], odd.replace(place=EVALUATE), *others[1:]]

    verdict = verdict_on(
        *(
            rank_with(n, groups=[group(members=members, at=4)], calls=[one], age=60.0, world_size=len(calls))
            for n, one in enumerate(calls)
        )
    )

    assert verdict.ranks == ranks
    approved(sentence_of(verdict))


def test_a_rank_in_a_later_call_is_not_blamed_for_different_roots(approved: Approved) -> None:
    world = GroupSeen(library="mpi4py", name="w", title="MPI_COMM_WORLD", members="0-2", size=3, backend="mpi")
    calls = [call(None, "Gather", root=0), call(None, "Barrier"), call(None, "Gather", root=1, place=EVALUATE)]

    (verdict,) = explain(
        [
            JobSnapshot(
                at=0.0,
                everybody=[
                    rank_with(n, groups=[world], calls=[one.replace(group="w", timeout=None)], age=60.0, world_size=3)
                    for n, one in enumerate(calls)
                ],
            )
        ],
        0.0,
    ).verdicts

    assert (verdict.kind, verdict.ranks) == (VerdictKind.MISMATCH, (0, 2))
    approved([sentence_of(verdict), *evidence_of(verdict)])


def test_the_place_of_a_call_is_shown_though_it_is_awaited_elsewhere(approved: Approved) -> None:
    waits = [
        rank_with(n, groups=[group(at=4)], calls=[call(5, place=EVALUATE)], frames=(MAIN,), age=60.0) for n in (0, 1, 3)
    ]

    approved(evidence_of(verdict_on(*waits, elsewhere(2))))


def test_a_missing_send_is_the_cause_and_not_the_barrier(approved: Approved) -> None:
    barrier = [rank_with(n, groups=[group()], calls=[call(1, "barrier")], age=60.0) for n in (0, 1)]
    receiving = [
        rank_with(n, groups=[group()], calls=[call(None, "recv", peer=n - 1, is_receive=True, age=10.0 * n)], age=60.0)
        for n in (2, 3)
    ]

    (verdict,) = explain([JobSnapshot(at=0.0, everybody=[*barrier, *receiving])], 0.0).verdicts

    assert (verdict.kind, verdict.ranks, verdict.others) == (VerdictKind.PARTNER, (1,), (2,))
    approved(sentence_of(verdict))
    assert any("ranks 0-1,3 are also blocked in" in line for line in evidence_of(verdict)), evidence_of(verdict)
