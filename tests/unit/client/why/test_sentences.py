"""Sentences: retry loops, ranks by count and group, certainty; and a thousand ranks in a second."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbg_client.why.explain import Explanation, JobSnapshot, explain
from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.sentences import sentence_of
from dbg_client.why.show import evidence_of
from dbg_client.why.verdict import Certainty, Verdict, VerdictKind
from dbg_wire.messages import Kind
from dbg_wire.records.evidence import (
    Activity,
    ActivityInfo,
    CollectiveSeen,
    CollectiveState,
    GroupSeen,
    NamedProcess,
    OtherProcess,
    ProcessSeen,
    Relation,
    Target,
    ThreadWait,
)
from dbg_wire.records.ranks import CRASH, DIED, Place, RankInfo, RankState
from tests.conftest import Approved
from tests.support.calls import calls_of
from tests.support.rank_evidence import (
    LOADING,
    MAIN,
    REDUCING,
    call,
    done,
    elsewhere,
    group,
    in_c_code,
    rank_with,
    waiting,
)
from tests.support.rank_infos import changed

POSTING = Place(file="/home/me/metrics.py", line=12, function="post_metrics")
URLOPEN = Place(file="/usr/lib/python3.11/urllib/request.py", line=216, function="urlopen")


def tries(number: int, *below: Place, line: int = 12, loops: bool = False) -> RankEvidence:
    does = ActivityInfo(what=Activity.CONNECT, name="10.0.0.1:80")
    if loops:
        does = ActivityInfo(what=Activity.LOOPS, function="post_metrics", names=("urlopen", "sleep"), place=POSTING)
    return with_waits(elsewhere(number, frames=(MAIN, POSTING.replace(line=line), *below), age=0.1), main(does))


def test_a_retry_loop_seen_at_one_look_is_no_progress() -> None:
    others = [waiting(number) for number in (0, 1, 3)]
    snapshots = [
        JobSnapshot(at=0.0, everybody=[*others, tries(2, loops=True, line=14)]),
        JobSnapshot(at=2.0, everybody=[*others, tries(2, URLOPEN)]),
    ]

    (verdict,) = explain(snapshots, 0.0).verdicts

    assert (verdict.kind, verdict.ranks) == (VerdictKind.MISSING, (2,))
    assert "has looped in post_metrics (metrics.py) for up to 1 min: urlopen, sleep" in sentence_of(verdict)


@pytest.mark.parametrize("written", [9e6, 0.0])
def test_a_computing_culprit_advances_only_if_its_data_does(approved: Approved, written: float) -> None:
    def saving(cpu: float, output: float) -> RankEvidence:
        wait = main(in_c_code("zip_file.write_record"), is_sure=False)
        one = with_waits(elsewhere(2, age=0.5), wait)
        assert one.evidence is not None
        process = ProcessSeen(state="R", main_cpu=cpu, input=0.0, output=output)
        return replace(one, evidence=replace(one.evidence, process=process))

    def others(age: float) -> list[RankEvidence]:
        return [
            rank_with(n, groups=[group(at=4)], calls=[call(5, age=age)], frames=REDUCING, age=age) for n in (0, 1, 3)
        ]

    snapshots = [
        JobSnapshot(at=0.0, everybody=[*others(20.0), saving(1.0, 0.0)]),
        JobSnapshot(at=5.0, everybody=[*others(25.0), saving(5.9, written)]),
    ]

    (verdict,) = explain(snapshots, 0.0).verdicts

    assert verdict.kind is VerdictKind.UNKNOWN
    approved(sentence_of(verdict))


def in_world(number: int, world: int, *, has_come: bool) -> RankEvidence:
    everybody = group(members=f"0-{world - 1}", at=4)
    host = f"gpu{number // 8:03}"
    if has_come:
        return rank_with(
            number, groups=[everybody], calls=[call(5), done(4)], frames=REDUCING, world_size=world, host=host
        )
    return rank_with(number, groups=[everybody], calls=[done(4)], frames=LOADING, age=61.0, world_size=world, host=host)


@pytest.mark.parametrize(
    ("late", "who"),
    [
        (range(8, 16), "8 ranks (8-15) have"),
        (range(9, 18), "9 ranks (9-17) have"),
        (range(8, 15), "ranks 8-14 have"),
        (range(0, 32, 2), "16 ranks (0-30/2) have"),
    ],
)
def test_many_ranks_are_named_by_count(late: range, who: str) -> None:
    job = [in_world(number, 32, has_come=number not in late) for number in range(32)]

    (verdict,) = explain([JobSnapshot(at=0.0, everybody=job)], 0.0).verdicts

    assert verdict.ranks == tuple(late)
    assert sentence_of(verdict).startswith(f"{who} not reached all_reduce #5 of dp_0")


def test_the_cost_of_a_verdict_grows_linearly_with_the_ranks() -> None:
    def cost(ranks: int) -> int:
        job = [in_world(number, ranks, has_come=number != 17) for number in range(ranks)]
        return calls_of(lambda: explain([JobSnapshot(at=0.0, everybody=job), JobSnapshot(at=1.0, everybody=job)], 0.0))

    assert cost(400) < 2.5 * cost(200)


def mpi(number: int, *, has_come: bool) -> RankEvidence:
    world = GroupSeen(library="mpi4py", name="W", title="MPI_COMM_WORLD", members="0-3", backend="mpi")
    calls = (CollectiveSeen(group="W", name="allreduce", state=CollectiveState.ENQUEUED, age=9.0),)
    return rank_with(number, groups=[world], calls=calls if has_come else (), frames=LOADING, age=9.0)


def with_waits(one: RankEvidence, *threads: ThreadWait, others: tuple[OtherProcess, ...] = ()) -> RankEvidence:
    assert one.evidence is not None
    return replace(one, evidence=replace(one.evidence, waits=threads, others=others))


def main(does: ActivityInfo, **changes: object) -> ThreadWait:
    values = {"number": 1, "is_sure": True, **changes}
    return ThreadWait(thread="MainThread", does=does, is_main=True, **values)  # type: ignore[arg-type]


def thread(number: int, does: ActivityInfo, **changes: object) -> ThreadWait:
    return ThreadWait(thread=f"t{number}", does=does, number=number, **changes)  # type: ignore[arg-type]


JOINS, GETS = ActivityInfo(what=Activity.JOIN, thread="t2"), ActivityInfo(what=Activity.QUEUE_GET, name="q")
TWO_TASKS = ActivityInfo(what=Activity.EVENT_LOOP, names=("load", "save"), count=2)
READS = ActivityInfo(what=Activity.READ, target=Target.FILE, name="/data/1")


def process(pid: int, **fields: object) -> NamedProcess:
    return NamedProcess(pid=pid, **fields)  # type: ignore[arg-type]


def waits_for(pid: int, **fields: object) -> ActivityInfo:
    return ActivityInfo(what=Activity.CHILD_END, processes=(process(pid, **fields),))


def wants(path: str, holder: int | None) -> ActivityInfo:
    return ActivityInfo(what=Activity.FILE_LOCK, name=path, processes=(process(holder),) if holder is not None else ())


def job(late: RankEvidence) -> Explanation:
    """Return the explanation of a job in which three ranks wait for this one."""
    return explain([JobSnapshot(at=0.0, everybody=[waiting(0), waiting(1), waiting(3), late])], 0.0)


def reason(found: Explanation) -> str:
    (verdict,) = found.verdicts
    assert (
        sentence_of(verdict).replace(" (gpu013)", "", 1).startswith("rank 2 has not reached all_reduce #5 of dp_0: it ")
    )
    assert sentence_of(verdict).endswith("; 3 of 4 ranks have waited for 1 min")
    return sentence_of(verdict).partition(": it ")[2].rpartition("; ")[0]


SLEEPS = OtherProcess(pid=99, does=ActivityInfo(what=Activity.SLEEP))


@pytest.mark.parametrize(
    ("waits", "others"),
    [
        pytest.param([main(JOINS, awaits=(2,)), thread(2, READS)], (), id="a thread in turn"),
        pytest.param(
            [main(TWO_TASKS, awaits=(2, 3)), *(thread(n, GETS) for n in (2, 3))], (), id="tasks of one coroutine"
        ),
        pytest.param(
            [main(TWO_TASKS, awaits=(2, 3)), thread(2, GETS), thread(3, SLEEPS.does)], (), id="tasks that differ"
        ),
        pytest.param([main(waits_for(99, command="cat"), holder=99)], (SLEEPS,), id="a child process"),
        pytest.param(
            [main(waits_for(99, command="python prepare_shards.py --input /data/a --all …"), holder=99)],
            (SLEEPS,),
            id="a child with a long command",
        ),
        pytest.param([main(wants("a", 99), holder=99)], (SLEEPS,), id="a stranger"),
    ],
)
def test_the_causes_of_a_wait_are_shown_in_order(
    approved: Approved, waits: list[ThreadWait], others: tuple[OtherProcess, ...]
) -> None:
    approved(reason(job(with_waits(elsewhere(2), *waits, others=others))))


CHILD = 99
FROM_CHILD = ActivityInfo(
    what=Activity.MESSAGE, name="p", processes=(process(CHILD, name="W-1", relation=Relation.CHILD),)
)
WAITS = main(FROM_CHILD, holder=CHILD)
CHILD_SLEEPS = main(ActivityInfo(what=Activity.SLEEP, function="time.sleep"))
TO_PIPE = ActivityInfo(what=Activity.WRITE, target=Target.FULL_PIPE, processes=(process(8802),))


@pytest.mark.parametrize(
    ("wait", "changes"),
    [
        pytest.param(CHILD_SLEEPS, {}, id="sleeps"),
        pytest.param(main(ActivityInfo(what=Activity.LOCK)), {}, id="waits for a lock"),
        pytest.param(CHILD_SLEEPS, {"state": RankState.STOPPED, "where": LOADING[-1]}, id="stands in the debugger"),
        pytest.param(main(TO_PIPE, holder=8802), {}, id="a pipe"),
        pytest.param(CHILD_SLEEPS, {"child": None, "rank": 1}, id="is a rank"),
    ],
)
def test_a_wait_is_followed_into_a_child_process(
    approved: Approved, wait: ThreadWait, changes: dict[str, object]
) -> None:
    late = with_waits(
        elsewhere(2), WAITS, others=(OtherProcess(pid=CHILD, does=ActivityInfo(what=Activity.NATIVE_LOCK)),)
    )
    child = rank_with(2, frames=LOADING, **{"pid": CHILD, "child": 1, "address": "gpu013:2.1", **changes})  # type: ignore[arg-type]
    others = [waiting(0), waiting(3)] if changes.get("rank") else [waiting(0), waiting(1), waiting(3)]
    look = JobSnapshot(at=0.0, everybody=[*others, late, with_waits(child, wait)])
    approved(sentence_of(explain([look, look], 0.0).verdicts[0]))


def test_a_parent_that_is_not_a_rank_is_not_blamed() -> None:
    parent = with_waits(rank_with(0, child=1, pid=CHILD), main(ActivityInfo(what=Activity.MESSAGES)))
    look = JobSnapshot(at=0.0, everybody=[parent, waiting(0), waiting(1), waiting(3), elsewhere(2)])
    (verdict,) = explain([look, look], 0.0).verdicts
    assert (verdict.kind, verdict.ranks) == (VerdictKind.MISSING, (2,))


def test_a_rank_that_fills_its_own_pipe_is_a_deadlock() -> None:
    alone = rank_with(0, frames=(MAIN,), age=8.0, world_size=1)
    look = JobSnapshot(at=0.0, everybody=[with_waits(alone, main(TO_PIPE, holder=alone.rank.pid))])

    (verdict,) = explain([look, look], 0.0).verdicts

    assert (verdict.kind, verdict.certainty) == (VerdictKind.DEADLOCK, Certainty.SURE)


@pytest.mark.parametrize("is_sure", [True, False])
def test_a_deadlock_of_threads_is_as_sure_as_its_lock_holders(is_sure: bool) -> None:
    alone = rank_with(0, frames=(MAIN,), age=8.0, world_size=1)
    both = (main(JOINS, awaits=(2,)), thread(2, ActivityInfo(what=Activity.LOCK), awaits=(1,), is_sure=is_sure))
    look = JobSnapshot(at=0.0, everybody=[with_waits(alone, *both)])

    (verdict,) = explain([look, look], 0.0).verdicts

    assert verdict.kind is VerdictKind.DEADLOCK
    assert verdict.certainty is (Certainty.SURE if is_sure else Certainty.LIKELY)
    assert ("likely" in sentence_of(verdict)) != is_sure


def holding(number: int, holder: RankEvidence | None) -> RankEvidence:
    """Return a rank that waits for what the process of another one has."""
    pid = holder.rank.pid if holder is not None else None
    return with_waits(elsewhere(number, world_size=6), main(wants("a", pid), holder=pid))


def without_world(rank: RankInfo) -> RankInfo:
    assert rank.placement is not None
    return rank.replace(placement=rank.placement.replace(world_size=None))


def verdicts_on(*everybody: RankEvidence) -> tuple[Verdict, ...]:
    look = JobSnapshot(at=0.0, everybody=everybody)
    return explain([look, look], 0.0).verdicts


def test_the_last_rank_of_a_chain_of_waits_is_named() -> None:
    ranks = [holding(5, None)]
    for number in (4, 3, 2, 1):
        ranks.append(holding(number, ranks[-1]))

    (alone,) = verdicts_on(*(replace(one, rank=without_world(one.rank)) for one in ranks))
    (in_collective,) = verdicts_on(*ranks, waiting(0, world_size=6))

    assert (alone.kind, alone.ranks, alone.others) == (VerdictKind.WAITING, (5,), (1, 2, 3, 4))
    assert "waiting for them:" in evidence_of(alone)
    assert (in_collective.kind, in_collective.group) == (VerdictKind.MISSING, "dp_0")


def test_hostile_names_in_a_sentence_are_escaped() -> None:
    late = with_waits(
        elsewhere(2), main(READS.replace(name="\x1b[2J\n"), awaits=(2,)), thread(2, READS.replace(name="\x1b]0;x\x07"))
    )

    text = reason(job(late))

    assert text.isprintable()
    assert "\\x1b[2J" in text


def polling(number: int, path: str, holder: int | None) -> RankEvidence:
    """Return a rank that waits for the lock of a file which a process holds."""
    return with_waits(elsewhere(number), main(wants(path, holder), holder=holder))


def pid(number: int) -> int:
    return waiting(number).rank.pid


@pytest.mark.parametrize(("paths", "holders"), [("aa", (0, 0)), ("ab", (0, 0)), ("ab", (3, 1))])
def test_ranks_that_need_a_lock_of_a_waiting_rank_are_a_deadlock(
    approved: Approved, paths: str, holders: tuple[int, int]
) -> None:
    late = [polling(number, path, pid(held)) for number, path, held in zip((2, 3), paths, holders, strict=True)]

    found = explain([JobSnapshot(at=0.0, everybody=[waiting(0), waiting(1), *late])] * 2, 0.0)

    (verdict,) = found.verdicts
    assert (verdict.kind, verdict.ranks, verdict.others) == ("deadlock", (2, 3), (0, 1))
    assert verdict.certainty is Certainty.SURE
    approved(sentence_of(verdict))
    assert [rank.rank for rank in found.missing] == [2, 3]


@pytest.mark.parametrize("holder", [None, 2**22 + 1])
def test_a_lock_without_a_known_holder_is_no_deadlock(approved: Approved, holder: int | None) -> None:
    late = [polling(number, "a", holder) for number in (2, 3)]

    verdict = explain([JobSnapshot(at=0.0, everybody=[waiting(0), waiting(1), *late])] * 2, 0.0).verdicts[0]

    assert verdict.kind is VerdictKind.MISSING
    approved(sentence_of(verdict))


@pytest.mark.parametrize("seconds", [1.0, 5.0])
def test_a_cycle_of_locks_is_a_deadlock_without_a_collective(approved: Approved, seconds: float) -> None:
    wanted = {0: 1, 1: 2, 2: 0, 3: 0}
    polls = [polling(number, f"lock{held}", pid(held)) for number, held in wanted.items()]
    job = [replace(one, answer=one.answer.replace(age=0.05)) for one in polls]

    found = explain([JobSnapshot(at=0.0, everybody=job), JobSnapshot(at=seconds, everybody=job)], 0.0)

    if seconds < 5.0:
        assert [one.kind for one in found.verdicts] == [VerdictKind.UNKNOWN]
        return
    (cycle,) = found.verdicts
    assert (cycle.kind, cycle.ranks, cycle.others) == (VerdictKind.DEADLOCK, (0, 1, 2), (3,))
    assert found.missing == ()
    approved(sentence_of(cycle))


MEMORY: dict[str, Any] = {"cause": "from the out-of-memory killer", "note": "it held 1.1 GiB"}


def ended(number: int, exit_status: int, since: float) -> RankEvidence:
    """Return a rank that has ended."""
    return rank_with(number, kind=Kind.LOST, state=RankState.EXITED, exit=exit_status, since=since, frames=REDUCING)


KEPT = rank_with(1, since=100.0, state=RankState.STOPPED, reason=CRASH)
HOW: dict[str, Any] = {"state": RankState.EXITED, "exit": 0, "reason": DIED}


@pytest.mark.parametrize(
    ("dead", "named"),
    [
        pytest.param([ended(0, -15, 101.0), ended(2, 1, 100.001), ended(1, -9, 100.0)], (1,), id="killed first"),
        pytest.param([ended(0, 1, 100.05), KEPT], (1,), id="kept after a crash"),
        pytest.param([ended(0, 1, 100.0), rank_with(1, kind=Kind.LOST, since=100.05, **HOW)], (1,), id="os._exit"),
        pytest.param([ended(n, -15, 100.0 + n) for n in range(4)], (0, 1, 2, 3), id="by a launcher, and no other"),
    ],
)
def test_only_dead_ranks_that_died_by_themselves_are_named(dead: list[RankEvidence], named: tuple[int, ...]) -> None:
    verdict = explain([JobSnapshot(at=0.0, everybody=dead)], 103.0).verdicts[0]

    assert (verdict.kind, verdict.ranks) == (VerdictKind.DEAD, named)
    assert ("afterwards:" in evidence_of(verdict)) == (len(named) == 1)


@pytest.mark.parametrize(
    "dead",
    [
        [rank_with(0, kind=Kind.LOST, world_size=1, state=RankState.EXITED, exit=-9, since=100.0, **MEMORY)],
        [ended(number, exit_status, 100.0) for number, exit_status in enumerate((-9, -9, -6, -6))],
    ],
    ids=["out of memory", "different causes"],
)
def test_the_cause_of_deaths_is_given_once(approved: Approved, dead: list[RankEvidence]) -> None:
    (verdict,) = explain([JobSnapshot(at=0.0, everybody=dead)], 103.0).verdicts

    approved(sentence_of(verdict))


def test_a_holder_on_another_host_is_not_matched_to_a_rank() -> None:
    late = polling(2, "a", pid(0))
    late = replace(late, rank=changed(late.rank, host="gpu099"))

    verdict = explain([JobSnapshot(at=0.0, everybody=[*map(waiting, (0, 1, 3)), late])] * 2, 0.0).verdicts[0]

    assert verdict.kind is VerdictKind.MISSING


@pytest.mark.parametrize("age", [None, 6.0], ids=["again and again", "all the time"])
def test_a_sleeping_loop_is_named_only_if_it_never_moves(approved: Approved, age: float | None) -> None:
    sleeps = main(ActivityInfo(what=Activity.SLEEP, function="time.sleep", seconds=0.2))
    alone = with_waits(rank_with(0, frames=LOADING, age=age, world_size=1), sleeps)
    snapshots = [JobSnapshot(at=at, everybody=[alone]) for at in (0.0, 5.1)]
    (verdict,) = explain(snapshots, 0.0).verdicts
    approved(sentence_of(verdict))
