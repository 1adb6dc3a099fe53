"""The graph of waits of a run: through threads, tasks and processes of ranks, up to who keeps them all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbg_client.core.process_groups import RankEvidence
from dbg_client.hang.explain import Explanation, JobLook, explain
from dbg_client.hang.verdict import Certainty, Verdict, VerdictKind
from dbg_wire.records.evidence import OtherProcess, ThreadWait, WaitKind
from dbg_wire.records.ranks import Place, RankInfo
from tests.conftest import Approved
from tests.support.rank_evidence import MAIN, elsewhere, told, waiting


def with_waits(one: RankEvidence, *threads: ThreadWait, others: tuple[OtherProcess, ...] = ()) -> RankEvidence:
    assert one.evidence is not None
    return replace(one, evidence=replace(one.evidence, waits=threads, others=others))


def main(text: str, kind: WaitKind = WaitKind.LOCK, **changes: object) -> ThreadWait:
    values = {"number": 1, "is_sure": True, **changes}
    return ThreadWait(thread="MainThread", kind=kind, text=text, is_main=True, **values)  # type: ignore[arg-type]


def thread(number: int, text: str, kind: WaitKind = WaitKind.FILE, **changes: object) -> ThreadWait:
    return ThreadWait(thread=f"t{number}", kind=kind, text=text, number=number, **changes)  # type: ignore[arg-type]


def job(late: RankEvidence) -> Explanation:
    """Return what is told of a job in which three ranks wait for this one."""
    return explain([JobLook(at=0.0, everybody=[waiting(0), waiting(1), waiting(3), late])], 0.0)


def reason(found: Explanation) -> str:
    (verdict,) = found.verdicts
    assert verdict.sentence.replace(" (gpu013)", "", 1).startswith("rank 2 has not come to all_reduce #5 of dp_0: it ")
    assert verdict.sentence.endswith("; 3 of 4 ranks wait since 1 min")
    return verdict.sentence.partition(": it ")[2].rpartition("; ")[0]


def test_what_a_thread_waits_for_that_another_one_waits_for_is_told_in_turn(approved: Approved) -> None:
    joins = main("waits for the end of thread t2", awaits=(2,))
    late = with_waits(elsewhere(2), joins, thread(2, "reads the file /data/1"))

    approved(reason(job(late)))


def test_tasks_of_one_coroutine_are_told_once_and_of_tasks_that_differ_the_first_one(approved: Approved) -> None:
    loop = main("waits for 2 tasks: fetch", WaitKind.LOOP, awaits=(2, 3))
    same = [thread(number, "waits for an item of the queue q") for number in (2, 3)]
    other = [same[0], thread(3, "sleeps")]

    approved(reason(job(with_waits(elsewhere(2), loop, *same))))
    approved(reason(job(with_waits(elsewhere(2), loop, *other))), "2")


def test_what_a_child_process_does_is_told(approved: Approved) -> None:
    child = OtherProcess(pid=4711, text="opens the pipe /fifo that nobody writes to")
    late = with_waits(elsewhere(2), main("waits for the process 4711 (`cat`)", holder=4711), others=(child,))

    approved(reason(job(late)))


def test_a_rank_and_its_child_that_wait_for_each_other_are_a_deadlock(approved: Approved) -> None:
    late = elsewhere(2)
    child = OtherProcess(pid=4711, text="writes to a full pipe to its parent", holder=late.rank.pid)
    found = job(with_waits(late, main("waits for the process 4711 (`seq`)", holder=4711), others=(child,)))

    approved(reason(found))
    assert (found.verdicts[0].kind, found.verdicts[0].cause) == (VerdictKind.MISSING, VerdictKind.DEADLOCK)


def test_a_rank_that_fills_a_pipe_which_it_should_read_itself_is_a_deadlock() -> None:
    alone = told(0, frames=(MAIN,), age=8.0, world_size=1)
    full = main("writes to a full pipe to this process itself", WaitKind.CHILD, holder=alone.rank.pid)
    look = JobLook(at=0.0, everybody=[with_waits(alone, full)])

    (verdict,) = explain([look, look], 0.0).verdicts

    assert (verdict.kind, verdict.certainty) == (VerdictKind.DEADLOCK, Certainty.SURE)
    assert verdict.sentence == "rank 0 (gpu013) writes to a full pipe to this process itself for 8 s"


def test_the_time_of_a_wait_is_set_off_from_a_clause_before_it(approved: Approved) -> None:
    alone = told(0, frames=(MAIN,), age=8.0, world_size=1)
    reads = main("reads the pipe /tmp/in that nobody writes to", WaitKind.FILE)
    look = JobLook(at=0.0, everybody=[with_waits(alone, reads)])

    approved(explain([look, look], 0.0).verdicts[0].sentence)


def test_a_long_command_of_a_child_gives_way_to_what_the_child_does(approved: Approved) -> None:
    child = OtherProcess(pid=4711, text="waits for a lock or a thread")
    late = main("waits for the end of the process 4711 (`python prepare_shards.py --input /data/a …`)", holder=4711)

    sentence = job(with_waits(elsewhere(2), late, others=(child,))).verdicts[0].sentence

    approved(sentence)


@pytest.mark.parametrize("is_sure", [True, False])
def test_threads_that_wait_for_each_other_are_as_sure_as_who_holds_their_locks(is_sure: bool) -> None:
    alone = told(0, frames=(MAIN,), age=8.0, world_size=1)
    both = (
        main("waits for a lock that thread t2 holds", awaits=(2,)),
        thread(2, "waits for a lock", WaitKind.LOCK, awaits=(1,), is_sure=is_sure),
    )
    look = JobLook(at=0.0, everybody=[with_waits(alone, *both)])

    (verdict,) = explain([look, look], 0.0).verdicts

    assert verdict.kind is VerdictKind.DEADLOCK
    assert verdict.certainty is (Certainty.SURE if is_sure else Certainty.LIKELY)
    assert ("likely" in verdict.sentence) != is_sure


def test_threads_that_wait_for_each_other_beside_a_main_thread_that_works_are_no_reason() -> None:
    both = (thread(2, "a", awaits=(3,)), thread(3, "b", awaits=(2,)))
    found = job(with_waits(elsewhere(2), main("runs Python code", WaitKind.PYTHON), *both))

    assert found.verdicts[0].cause is None


def holding(number: int, holder: RankEvidence | None, text: str = "waits for the lock of the file a") -> RankEvidence:
    """Return a rank that waits for what the process of another one has."""
    one = elsewhere(number, world_size=6)
    pid = holder.rank.pid if holder is not None else None
    held = f"{text}, which the process {pid} (`python`) holds" if holder is not None else text
    return with_waits(one, main(held, WaitKind.FILE, holder=pid))


def without_world(rank: RankInfo) -> RankInfo:
    assert rank.placement is not None
    return rank.replace(placement=rank.placement.replace(world_size=None))


def verdicts_on(*everybody: RankEvidence) -> tuple[Verdict, ...]:
    look = JobLook(at=0.0, everybody=everybody)
    return explain([look, look], 0.0).verdicts


def test_of_a_chain_of_five_ranks_the_last_one_is_named_and_the_others_wait_for_it() -> None:
    ranks = [holding(5, None, "opens the pipe /data/fifo")]
    for number in (4, 3, 2, 1):
        ranks.append(holding(number, ranks[-1]))

    (alone,) = verdicts_on(*(replace(one, rank=without_world(one.rank)) for one in ranks))
    (in_collective,) = verdicts_on(*ranks, *(waiting(0, world_size=6) for _ in range(1)))

    assert (alone.kind, alone.ranks, alone.others) == (VerdictKind.WAITING, (5,), (1, 2, 3, 4))
    assert alone.sentence == "rank 5 (gpu013) opens the pipe /data/fifo for 1 min 1 s"
    assert "behind them:" in alone.evidence
    assert (in_collective.kind, in_collective.group) == (VerdictKind.MISSING, "dp_0")


def test_ranks_without_a_common_end_are_told_with_the_process_that_nobody_is(approved: Approved) -> None:
    late = with_waits(
        elsewhere(2),
        main("waits for the lock of the file a, which the process 99 (`index.py`) holds", WaitKind.FILE, holder=99),
        others=(OtherProcess(pid=99, text="sleeps"),),
    )

    approved(reason(job(late)))


def test_names_of_ranks_and_threads_that_are_hostile_garble_nothing() -> None:
    late = with_waits(elsewhere(2), main("reads \x1b[2J\n", awaits=(2,)), thread(2, "does \x1b]0;x\x07"))

    text = reason(job(late))

    assert text.isprintable()
    assert "\\x1b[2J" in text


def test_a_place_of_a_working_rank_is_in_the_users_code() -> None:
    late = elsewhere(2, frames=(MAIN, Place(file="/venv/site-packages/numpy/x.py", line=3, function="svd")))

    assert job(late).verdicts[0].evidence[0].startswith("2  running  train.py:41 train_step")
