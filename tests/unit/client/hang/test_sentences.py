"""Sentences: retry loops, ranks by count and group, certainty; and a thousand ranks in a second."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbg_client.core.process_groups import RankEvidence
from dbg_client.hang.explain import JobLook, explain
from dbg_client.hang.fitting import fits
from dbg_client.hang.show import show_verdicts
from dbg_client.hang.verdict import Certainty, VerdictKind
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, GroupSeen, ProcessSeen, ThreadWait, WaitKind
from dbg_wire.records.ranks import Place
from tests.support.counted import calls_of
from tests.support.rank_evidence import LOADING, MAIN, REDUCING, call, done, elsewhere, group, told, waiting

POSTING = Place(file="/home/me/metrics.py", line=12, function="post_metrics")
URLOPEN = Place(file="/usr/lib/python3.11/urllib/request.py", line=216, function="urlopen")


def tries(number: int, *below: Place, line: int = 12, sleeps: bool = False) -> RankEvidence:
    kind, text = (
        (WaitKind.SLEEP, "sleeps (time.sleep(0.5))") if sleeps else (WaitKind.SOCKET, "connects to 10.0.0.1:80")
    )
    wait = ThreadWait(thread="MainThread", kind=kind, text=text, is_main=True)
    one = elsewhere(number, frames=(MAIN, POSTING.replace(line=line), *below), age=0.1)
    assert one.evidence is not None
    return replace(one, evidence=replace(one.evidence, waits=(wait,)))


def test_a_retry_loop_is_found_by_several_looks_and_is_no_progress() -> None:
    others = [waiting(number) for number in (0, 1, 3)]
    looks = [
        JobLook(at=0.0, everybody=[*others, tries(2, URLOPEN)]),
        JobLook(at=1.0, everybody=[*others, tries(2, sleeps=True, line=14)]),
        JobLook(at=2.0, everybody=[*others, tries(2, URLOPEN)]),
    ]

    (verdict,) = explain(looks, 0.0).verdicts
    (at_once,) = explain(looks[:1], 0.0).verdicts

    assert (verdict.kind, verdict.ranks) == (VerdictKind.MISSING, (2,))
    assert verdict.sentence == (
        "rank 2 (gpu013) has not come to all_reduce #5 of dp_0: it loops in post_metrics (metrics.py) for up to 1 min: "
        "urlopen, sleep; 3 of 4 ranks wait since 1 min"
    )
    assert (at_once.kind, at_once.ranks) == (VerdictKind.MISSING, (2,))


def test_a_program_that_works_and_sleeps_in_other_functions_is_in_no_retry_loop() -> None:
    job = [
        [elsewhere(0, frames=(MAIN.replace(line=line, function=name),), age=0.1, world_size=1)]
        for line, name in ((40, "train_step"), (50, "evaluate"))
    ]
    looks = [JobLook(at=float(at), everybody=everybody) for at, everybody in enumerate(job)]

    assert [one.kind for one in explain(looks, 0.0).verdicts] == [VerdictKind.BUSY]


@pytest.mark.parametrize(("written", "words"), [(9e6, ", moves; no hang so far"), (0.0, "; no hang so far")])
def test_a_culprit_that_computes_is_said_to_compute_and_to_move_if_its_data_does(written: float, words: str) -> None:
    def saving(cpu: float, output: float) -> RankEvidence:
        text = "is in C code (zip_file.write_record called at long_save.py:18)"
        one = elsewhere(2, age=0.5)
        wait = ThreadWait(thread="MainThread", kind=WaitKind.NATIVE, text=text, is_main=True)
        assert one.evidence is not None
        process = ProcessSeen(state="R", main_cpu=cpu, input=0.0, output=output)
        return replace(one, evidence=replace(one.evidence, process=process, waits=(wait,)))

    def others(age: float) -> list[RankEvidence]:
        return [told(n, groups=[group(at=4)], calls=[call(5, age=age)], frames=REDUCING, age=age) for n in (0, 1, 3)]

    looks = [
        JobLook(at=0.0, everybody=[*others(20.0), saving(1.0, 0.0)]),
        JobLook(at=5.0, everybody=[*others(25.0), saving(5.9, written)]),
    ]

    (verdict,) = explain(looks, 0.0).verdicts

    assert verdict.sentence == (
        "rank 2 (gpu013) has not come to all_reduce #5 of dp_0: it computes in zip_file.write_record (long_save.py:18)"
        f"{words}; 3 of 4 ranks wait since 25 s"
    )
    assert verdict.kind is VerdictKind.UNKNOWN


def in_world(number: int, world: int, *, has_come: bool) -> RankEvidence:
    everybody = group(members=f"0-{world - 1}", at=4)
    host = f"gpu{number // 8:03}"
    if has_come:
        return told(number, groups=[everybody], calls=[call(5), done(4)], frames=REDUCING, world_size=world, host=host)
    return told(number, groups=[everybody], calls=[done(4)], frames=LOADING, age=61.0, world_size=world, host=host)


@pytest.mark.parametrize(
    ("late", "who"),
    [
        (range(8, 16), "all 8 ranks of gpu001 have"),
        (range(9, 18), "9 ranks (9-17) have"),
        (range(8, 15), "ranks 8-14 have"),
        (range(0, 32, 2), "16 ranks (0-30/2) have"),
    ],
)
def test_many_ranks_are_told_by_count_and_by_the_host_or_group_whose_ranks_they_are(late: range, who: str) -> None:
    job = [in_world(number, 32, has_come=number not in late) for number in range(32)]

    (verdict,) = explain([JobLook(at=0.0, everybody=job)], 0.0).verdicts

    assert verdict.ranks == tuple(late)
    assert verdict.sentence.startswith(f"{who} not come to all_reduce #5 of dp_0")


def test_a_verdict_on_many_ranks_costs_no_more_for_each_than_one_on_few() -> None:
    def cost(ranks: int) -> int:
        job = [in_world(number, ranks, has_come=number != 17) for number in range(ranks)]
        return calls_of(lambda: explain([JobLook(at=0.0, everybody=job), JobLook(at=1.0, everybody=job)], 0.0))

    assert cost(400) < 2.5 * cost(200)


def mpi(number: int, *, has_come: bool) -> RankEvidence:
    world = GroupSeen(library="mpi4py", name="W", title="MPI_COMM_WORLD", members="0-3", backend="mpi")
    calls = (CollectiveSeen(group="W", name="allreduce", state=CollectiveState.ENQUEUED, age=9.0),)
    return told(number, groups=[world], calls=calls if has_come else (), frames=LOADING, age=9.0)


def test_what_stacks_alone_tell_is_likely_in_the_field_and_in_the_words() -> None:
    (of_mpi,) = explain([JobLook(at=0.0, everybody=[mpi(n, has_come=n != 2) for n in range(4)])], 0.0).verdicts
    (of_torch,) = explain([JobLook(at=0.0, everybody=[waiting(0), waiting(1), waiting(3), elsewhere(2)])], 0.0).verdicts

    assert (of_mpi.certainty, of_torch.certainty) == (Certainty.LIKELY, Certainty.SURE)
    assert of_mpi.sentence.startswith("rank 2 (gpu013) has likely not come to allreduce of MPI_COMM_WORLD; 3 of 4")
    assert "likely" not in of_torch.sentence


def test_a_sentence_with_a_long_reason_fits_into_two_lines_of_a_hundred_columns() -> None:
    late = elsewhere(2)
    text = "reads the file /" + "very/" * 25 + "long"
    assert late.evidence is not None
    wait = ThreadWait(thread="MainThread", kind=WaitKind.FILE, text=text, is_main=True)
    late = replace(late, evidence=replace(late.evidence, waits=(wait,)))

    found = explain([JobLook(at=0.0, everybody=[waiting(0), waiting(1), waiting(3), late])], 0.0)
    lines = show_verdicts(found.verdicts, color=False, columns=100).splitlines()

    assert fits("4711.0", found.verdicts[0].sentence)
    assert lines[2].startswith("  2  running")
    assert lines[1].endswith("ranks wait since 1 min")
