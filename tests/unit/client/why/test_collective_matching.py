from __future__ import annotations

import pytest

from dbg_client.core.choose import MAX_WORLD
from dbg_client.why.collective_matching import Matched, match_collectives, pending_of_each
from dbg_client.why.process_groups import RankEvidence, inferred_group, world_size
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.evidence import Evidence, GroupSeen, SourceSeen
from dbg_wire.records.ranks import RankState
from tests.support.rank_evidence import LOADING, REDUCING, call, elsewhere, group, rank_with, silent, waiting
from tests.unit.client.fake_broker import make_rank


def match(*everybody: RankEvidence) -> Matched:
    (matched,) = match_collectives(everybody)
    return matched


def test_ranks_missing_from_a_pending_collective_are_found() -> None:
    matched = match(waiting(0), waiting(1), waiting(3), elsewhere(2))

    (pending,) = matched.all_pending
    assert pending.label == "all_reduce #5 of dp_0"
    assert (pending.came, pending.missing, pending.unheard) == ((0, 1, 3), (2,), ())
    assert (pending.age, pending.seconds_left) == (60.0, 1740.0)


def test_calls_enqueued_far_ahead_are_one_pending_collective() -> None:
    ahead = [
        rank_with(number, groups=[group(at=4)], calls=[call(sequence, age=90.0 - sequence) for sequence in (5, 6, 7)])
        for number in range(3)
    ]

    (pending,) = match(*ahead, elsewhere(3)).all_pending

    assert (pending.sequence, pending.missing, pending.age) == (5, (3,), 85.0)


def test_a_rank_that_has_left_a_collective_counts_as_arrived() -> None:
    first, second = match(waiting(0, 5), waiting(1, 7), waiting(2, 7), elsewhere(3, 6)).all_pending

    assert (first.sequence, first.came, first.missing) == (5, (0, 1, 2, 3), ())
    assert (second.sequence, second.came, second.missing) == (7, (1, 2), (0, 3))


def test_a_rank_without_the_group_is_missing_and_a_silent_one_is_unknown() -> None:
    other = rank_with(2, groups=[group("9", "0-9", title="tp")], calls=[])

    (pending,) = match(waiting(0), waiting(1), other, silent(3)).all_pending

    assert (pending.came, pending.missing, pending.unheard) == ((0, 1), (2,), (3,))


def test_groups_with_the_same_title_are_distinguished_by_their_members() -> None:
    first = [rank_with(n, groups=[group("1", "0-1", title="dp")], calls=[call(1, group="1")]) for n in (0, 1)]
    second = [rank_with(n, groups=[group("2", "2-3", title="dp")], calls=[call(1, group="2")]) for n in (2, 3)]

    matched = match(*first, *second)

    assert [one.label for one in matched.groups] == ["dp (0-1)", "dp (2-3)"]
    assert [one.numbers for one in matched.groups] == [(0, 1), (2, 3)]


def test_a_rank_without_a_member_list_is_in_the_group_of_that_name() -> None:
    unlisted = rank_with(1, groups=[group(members="", at=4)], calls=[call(5)])

    (pending,) = match(waiting(0), unlisted).all_pending

    assert (pending.came, pending.unheard) == ((0, 1), (2, 3))


def test_collectives_without_numbers_are_matched_by_their_names() -> None:
    world = GroupSeen(library="mpi4py", name="w", title="MPI_COMM_WORLD", size=4)
    inside = [rank_with(n, groups=[world], calls=[call(None, "Allreduce", group="w")]) for n in (0, 1, 2)]

    (pending,) = match(*inside, rank_with(3, groups=[world])).all_pending

    assert pending.label == "Allreduce of MPI_COMM_WORLD"
    assert (pending.came, pending.missing) == ((0, 1, 2), (3,))


def test_a_receive_waits_for_a_peer_that_does_not_send() -> None:
    receiving = rank_with(0, groups=[group()], calls=[call(1, "recv", peer=2, is_receive=True)])

    (alone,) = match(receiving, rank_with(2, groups=[group()])).all_pending
    (matched,) = [
        one
        for one in match(receiving, rank_with(2, groups=[group()], calls=[call(1, "send", peer=0)])).all_pending
        if one.is_receive
    ]

    assert (alone.peer, alone.waiting, alone.missing) == (2, (0,), (2,))
    assert matched.missing == ()


def test_sequence_numbers_alone_show_which_rank_is_behind() -> None:
    numbers = [
        rank_with(
            n, groups=[GroupSeen(library="torch", name="0", title="default", members="0-3", enqueued=8, completed=7)]
        )
        for n in range(3)
    ]
    behind = rank_with(
        3, groups=[GroupSeen(library="torch", name="0", title="default", members="0-3", enqueued=7, completed=7)]
    )

    (pending,) = match(*numbers, behind).all_pending

    assert (pending.label, pending.missing) == ("a collective #8 of default", (3,))


def test_stacks_show_a_collective_that_no_library_reports() -> None:
    bare = [rank_with(n, frames=REDUCING, age=30.0, evidence=Evidence()) for n in range(3)]

    matched = match(*bare, rank_with(3, frames=LOADING, evidence=Evidence()))

    (pending,) = matched.all_pending
    assert pending.group.is_inferred
    assert (pending.label, pending.came, pending.missing) == ("all_reduce", (0, 1, 2), (3,))


def test_each_rank_is_matched_to_its_own_call() -> None:
    matched = match(waiting(0, name="barrier"), *map(waiting, (1, 2, 3)))

    found = pending_of_each([matched])

    labels = [(one.label, one.came) for _, one in sorted(found.items())]
    assert labels == [("barrier #5 of dp_0", (0,)), *[("all_reduce #5 of dp_0", (1, 2, 3))] * 3]


@pytest.mark.parametrize(
    ("library", "recorded", "labels"),
    [
        ("gloo", "all_reduce", {"reduce_scatter_single"}),
        ("nccl", "all_reduce", {"reduce_scatter_single", "all_reduce"}),
        ("nccl", "reduce_scatter_tensor", {"reduce_scatter_single"}),
    ],
)
def test_a_call_named_differently_by_stack_and_recorder_is_one_call(
    library: str, recorded: str, labels: set[str]
) -> None:
    known = GroupSeen(library="torch", name=f"0:{library}", title="default", members="0-1", enqueued=5, completed=4)
    names = ("reduce_scatter_single", recorded)
    ranks = [rank_with(n, groups=[known], calls=[call(5, name, group=f"0:{library}")]) for n, name in enumerate(names)]
    (pending,) = match(*ranks).all_pending
    assert {one.name for one in pending.all_calls.values()} == labels


def test_a_rank_without_reported_calls_is_in_no_collective() -> None:
    mpi = SourceSeen(library="mpi4py", limitation="mpi4py counts no calls")
    seen = GroupSeen(library="mpi4py", name="MPI_COMM_WORLD", title="MPI_COMM_WORLD", members="0-2", size=3)
    inside = Evidence(sources=(mpi,), groups=(seen,), collectives=(call(None, "allreduce", group="MPI_COMM_WORLD"),))
    ranks = [
        rank_with(0, evidence=inside),
        rank_with(1, evidence=inside),
        rank_with(2, evidence=Evidence(sources=(mpi,))),
    ]

    (pending,) = match(*ranks).all_pending

    assert (pending.came, pending.missing, pending.unheard) == ((0, 1), (2,), ())


def test_results_over_all_ranks_are_computed_once_for_each_call() -> None:
    reducing = [waiting(number) for number in range(20)]
    gathering = [rank_with(n, groups=[group(at=4)], calls=[call(5, name="all_gather")]) for n in range(20, 40)]

    found = pending_of_each([match(*reducing, *gathering)])

    assert len(found) == 40
    assert len({id(pending) for pending in found.values()}) == 2
    for pending in found.values():
        assert pending.roots is pending.roots
        assert pending.all_calls is pending.all_calls


@pytest.mark.parametrize(("reported", "size"), [(None, None), (0, None), (MAX_WORLD, MAX_WORLD), (MAX_WORLD + 1, None)])
def test_an_implausible_world_size_is_unknown(reported: int | None, size: int | None) -> None:
    rank = make_rank(0, world_size=reported)
    one = RankEvidence(rank=rank, answer=RankAnswer(key=rank.key, kind=Kind.VALUE, text=""))
    assert world_size({0: one}) == size


@pytest.mark.parametrize(("state", "is_there"), [(RankState.RUNNING, True), (RankState.EXITED, False)])
def test_the_last_stack_of_an_ended_rank_is_no_call(state: RankState, is_there: bool) -> None:
    rank = make_rank(0, state=state)
    answer = RankAnswer(key=rank.key, kind=Kind.VALUE, text="", frames=REDUCING)
    found = inferred_group((rank.job, rank.run), {0: RankEvidence(rank=rank, answer=answer)})
    assert (found is not None) is is_there
