from __future__ import annotations

import pytest

from dbg_client.hang.slow.explain import RunFindings
from dbg_client.hang.slow.lateness import Lateness, SlowVerdict, exit_status
from dbg_client.hang.verdict import Certainty
from dbg_wire.records.evidence import GroupSeen
from dbg_wire.records.ranks import Place, RankState
from dbg_wire.records.samples import ProcessorUse, SampledPlace
from tests.conftest import Approved
from tests.unit.client.hang.slow.simulated import LOADING, REDUCING, Group, Job, lack


def only(found: RunFindings) -> SlowVerdict:
    """Return the only verdict."""
    (verdict,) = found.verdicts
    return verdict


def looks(frames: tuple[Place, ...], count: int) -> list[tuple[tuple[Place, ...], list[float]]]:
    """Return so many looks at one place, all over the sampling."""
    return [(frames, [10.0 * number / count for number in range(count)])]


def test_the_sentence_names_rank_collective_and_cost() -> None:
    verdict = only(Job([Group("dp_0", range(4), lambda rank, step: 0.31 * (rank == 2), pause=1.6)]).found())
    assert verdict.sentence == (
        "rank 2 (h1) comes last in 50 of 50 all_reduce of dp_0, by 310 ms; a step takes 1.9 s instead of 1.6"
    )
    assert verdict.certainty is Certainty.SURE
    assert verdict.next is not None
    assert verdict.next.command == "dbg-attach interrupt 2"
    assert exit_status([verdict]) == 1


def test_it_says_where_the_late_rank_is_while_others_wait() -> None:
    late = Job([Group("dp_0", range(4), lambda rank, step: 0.1 * (rank == 2), pause=0.1)])
    # The others are there 0.1 s after a step's begin, and it comes 0.1 s later.
    late.places[2] = [
        (LOADING, [0.2 * step + 0.15 for step in range(40)]),
        (REDUCING, [0.2 * step + 0.05 for step in range(50)]),
    ]
    assert "meanwhile it is at load data.py:17 in 40 of 40 looks" in only(late.found()).evidence


def test_one_slow_rank_makes_others_late_and_is_named_alone(approved: Approved) -> None:
    # Rank 0 waits for rank 1 in tp_0, and is late in dp_0 by that.
    tp = Group("tp_0", (0, 1), lambda rank, step: 0.2 * (rank == 1), pause=0.3)
    dp = Group("dp_0", (0, 2, 3, 4), lambda rank, step: 0.2 * (rank == 0), pause=0.3, begin=0.01)
    verdict = only(Job([tp, dp]).found())
    assert verdict.ranks == (1,)
    approved(verdict.evidence)


def test_nobody_is_late_is_an_answer(approved: Approved) -> None:
    verdict = only(Job([Group("dp_0", range(4), lambda rank, step: 0.0004 * rank)]).found())
    assert verdict.kind is Lateness.EVEN
    approved(verdict.sentence)
    assert exit_status([verdict]) == 0


def test_times_of_hosts_that_only_call_are_no_certainty() -> None:
    group = Group("dp_0", range(4), lambda rank, step: 0.1 * (rank == 2), backend="nccl")
    verdict = only(Job([group]).found())
    assert verdict.certainty is Certainty.LIKELY
    assert "rank 2 (h1) seems to come last in" in verdict.sentence
    assert any("TORCH_NCCL_ENABLE_TIMING=1" in line for line in verdict.evidence)


def test_a_job_that_has_come_to_no_collective_may_hang() -> None:
    verdict = only(Job([Group("dp_0", range(2), steps=20, begin=-20.0)]).found())
    assert verdict.kind is Lateness.UNKNOWN
    assert verdict.next is not None
    assert verdict.next.command == "dbg-attach why"
    assert exit_status([verdict]) == 6


def test_a_rank_in_a_debugger_holds_all_up(approved: Approved) -> None:
    verdict = only(Job([Group("dp_0", range(2))], state=RankState.STOPPED).found())
    approved(verdict.sentence)


def test_those_that_did_not_answer_are_named(approved: Approved) -> None:
    job = Job([Group("dp_0", range(4), lambda rank, step: 0.1 * (rank == 2))], silent=[3])
    approved(only(job.found()).evidence)


def test_no_rank_at_all_has_told_anything() -> None:
    job = Job([Group("dp_0", range(2))], silent=[0, 1])
    verdict = only(job.found())
    assert (verdict.kind, verdict.sentence) == (Lateness.UNKNOWN, "no rank has told anything")


def test_clocks_that_nothing_compares_are_the_answer(approved: Approved) -> None:
    verdict = only(Job([Group("dp_0", range(2), lambda rank, step: 0.1 * rank)], hosts=("h1", "h2")).found())
    approved(verdict.sentence)


def test_without_a_recorder_the_rank_that_waits_least_is_named(approved: Approved) -> None:
    job = Job([], hosts=["h1"] * 4)
    for number in range(4):
        waits = 4 if number == 3 else 40
        job.places[number] = [*looks(REDUCING, waits), *looks(LOADING, 50 - waits)]
        job.rows[number] = [lack("this torch has no flight recorder")]
    verdict = only(job.found())
    approved(verdict.sentence)
    assert verdict.evidence == (
        "outside of collectives it is at load data.py:17 in 46 of 46 looks",
        "this torch has no flight recorder",
    )
    assert verdict.certainty is Certainty.LIKELY


def test_calls_of_mpi_that_stacks_do_not_show_count(approved: Approved) -> None:
    job = Job([], hosts=["h1"] * 3)
    world = GroupSeen(library="mpi4py", name="MPI_COMM_WORLD 0-2", title="MPI_COMM_WORLD", members="0-2", size=3)
    for number in range(3):
        waits = 2 if number == 1 else 40
        times = tuple(range(waits))
        place = SampledPlace(frames=LOADING[:1], times=times, group=world.name, call="Allreduce")
        job.rows[number] = [world, place]
    approved(only(job.found()).sentence)


def test_nobody_waits_longer_than_others() -> None:
    job = Job([], hosts=["h1"] * 2)
    for number in range(2):
        job.places[number] = [*looks(REDUCING, 20 + number), *looks(LOADING, 30)]
    verdict = only(job.found())
    assert (verdict.kind, verdict.ranks) == (Lateness.EVEN, ())


@pytest.mark.parametrize("late", [(2,), (2, 3)])
def test_what_the_kernel_keeps_from_it_stands_below(late: tuple[int, ...]) -> None:
    job = Job([Group("dp_0", range(8), lambda rank, step: 0.1 * (rank in late))])
    for number in range(8):
        job.samples[number] = {
            "processors": ProcessorUse(periods=100, throttled=83 if number in late else 0, quota=0.5)
        }
    line = "its cgroup throttles it: the quota (0.5 cores) was used up in 83 of 100 periods"
    expected = [line] if len(late) == 1 else [f"rank {number}: {line}" for number in late]
    assert [one for one in only(job.found()).evidence if "quota" in one] == expected
