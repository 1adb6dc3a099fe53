from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

from dbg_client.why.explain import Explanation, JobSnapshot, explain
from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.sentences import sentence_of
from dbg_client.why.show import evidence_of, show_verdicts, verdicts_document
from dbg_client.why.verdict import Certainty, Verdict, VerdictKind, exit_status
from dbg_client.why.wait_text import wait_text
from dbg_wire.messages import Finding, Kind
from dbg_wire.records.evidence import (
    Activity,
    ActivityInfo,
    CollectiveSeen,
    CollectiveState,
    Evidence,
    GroupSeen,
    NamedProcess,
    ProcessSeen,
    SourceSeen,
    Target,
    ThreadWait,
)
from dbg_wire.records.ranks import CRASH, Coordinate, End, EndKind, Limit, LimitKind, Place, RankState
from tests.conftest import Approved
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
    silent,
    stuck,
    suspended,
    waiting,
)
from tests.support.rank_infos import changed

NOW = 1760000100.0
OTHER = Place(file="/home/me/train.py", line=50, function="step")


def once(*everybody: RankEvidence) -> Explanation:
    return explain([JobSnapshot(at=0.0, everybody=everybody)], NOW)


def twice(before: Sequence[RankEvidence], now: Sequence[RankEvidence], seconds: float = 1.0) -> Explanation:
    return explain([JobSnapshot(at=0.0, everybody=before), JobSnapshot(at=seconds, everybody=now)], NOW)


def first(found: Explanation) -> Verdict:
    return found.verdicts[0]


def command_of(verdict: Verdict) -> str:
    assert verdict.next is not None
    return verdict.next.command


def kinds(found: Explanation) -> list[str]:
    return [verdict.kind.value for verdict in found.verdicts]


def waits(one: RankEvidence, *threads: ThreadWait) -> RankEvidence:
    assert one.evidence is not None
    return replace(one, evidence=replace(one.evidence, waits=threads))


def traced(one: RankEvidence) -> RankEvidence:
    """Return a rank that a debugger has stopped."""
    assert one.evidence is not None
    process = ProcessSeen(state="t", tracer=NamedProcess(pid=812, name="gdb"))
    return replace(one, evidence=replace(one.evidence, process=process))


def without_answer(one: RankEvidence) -> RankEvidence:
    return RankEvidence(rank=one.rank, answer=one.answer.replace(kind=Kind.LOST))


def main(does: ActivityInfo) -> ThreadWait:
    return ThreadWait(thread="MainThread", does=does, is_main=True)


def child(command: str) -> ActivityInfo:
    return ActivityInfo(what=Activity.CHILD_END, processes=(NamedProcess(pid=99, command=command),))


SHARD = ActivityInfo(what=Activity.READ, target=Target.FILE, name="/data/shard-3.bin")
SVD = ActivityInfo(what=Activity.NATIVE, function="numpy.linalg.svd")
SLEEPS = ActivityInfo(what=Activity.SLEEP)


# ----------------------------------------------------------------------------------------------------- collectives


def test_the_sentence_names_the_missing_rank_and_the_evidence_its_place(approved: Approved) -> None:
    late = elsewhere(2, coordinates=(Coordinate(axis="dp", index=2), Coordinate(axis="tp", index=3)))

    found = once(waiting(0), waiting(1), waiting(3), late)

    approved(show_verdicts(found.verdicts, color=False))
    assert verdicts_document(found) == {
        "schema": 1,
        "asked": 4,
        "answered": 4,
        "verdicts": [
            {
                "kind": "missing",
                "sentence": sentence_of(first(found)),
                "certainty": "sure",
                "job": "4711.0",
                "ranks": "2",
                "others": "0-1,3",
                "cause": None,
                "group": "dp_0",
                "collective": "all_reduce",
                "sequence": 5,
                "age": 60.0,
                "evidence": list(evidence_of(first(found))),
                "next": "dbg-attach interrupt 2",
            }
        ],
    }
    assert [rank.rank for rank in found.missing] == [2]
    assert (found.is_settled, exit_status(found.verdicts)) == (True, 1)


def ended(*, since: float = 62.0, **changes: object) -> RankEvidence:
    values: dict[str, Any] = {"state": RankState.EXITED, "since": NOW - since, **changes}
    return without_answer(elsewhere(2, **values))


KEPT: dict[str, Any] = {"state": RankState.STOPPED, "where": MAIN, "reason": CRASH, "error": "ValueError: bad"}


@pytest.mark.parametrize(
    ("late", "command", "cause"),
    [
        (ended(exit=-9), "dbg-attach where 2 --all", "dead"),
        (ended(exit=None, reason="died"), "dbg-attach where 2 --all", "dead"),
        (ended(exit=0, reason="died"), "dbg-attach where 2 --all", "dead"),
        (ended(exit=3, reason="died"), "dbg-attach where 2 --all", "dead"),
        (ended(state=RankState.LOST), "dbg-attach where 2 --all", "dead"),
        (ended(exit=0), "dbg-attach where 2 --all", "ended"),
        (elsewhere(2, state=RankState.STOPPED, where=MAIN), "dbg-attach 2", "waiting"),
        (
            elsewhere(2, state=RankState.STOPPED, where=MAIN, reason=CRASH, error="ValueError: bad"),
            "dbg-attach 2",
            "dead",
        ),
        (elsewhere(2, **suspended(12)), "dbg-attach where 2", "suspended"),
        (
            traced(elsewhere(2, state=RankState.UNRESPONSIVE, **suspended(12))),
            "dbg-attach where 2",
            "suspended",
        ),
        (elsewhere(2, state=RankState.UNRESPONSIVE, **stuck(12)), "dbg-attach where 2", "stuck"),
        (waits(elsewhere(2), main(SHARD)), "dbg-attach interrupt 2", "waiting"),
        (waits(elsewhere(2), main(child("sort big"))), "dbg-attach interrupt 2", "waiting"),
        (waits(elsewhere(2), main(SVD)), "dbg-attach interrupt 2", "stuck"),
    ],
)
def test_the_cause_of_a_missing_rank_is_given_once(
    approved: Approved, late: RankEvidence, command: str, cause: str
) -> None:
    found = once(waiting(0), waiting(1), waiting(3), late)

    assert (kinds(found), first(found).cause) == (["missing"], VerdictKind(cause))
    approved(sentence_of(first(found)))
    assert command_of(first(found)) == command
    assert show_verdicts(found.verdicts, color=False).count("4711.0:") == 1


def test_a_handled_exception_is_shown_for_missing_and_mismatched_ranks() -> None:
    handles = ActivityInfo(what=Activity.HANDLES, name="OSError: disk full", place=MAIN)
    handled = ThreadWait(thread="MainThread", does=handles)
    other = waits(rank_with(2, groups=[group(at=4)], calls=[call(5, "barrier")], age=60.0), handled)
    late = waits(elsewhere(2), main(SLEEPS), handled)
    by_itself = waits(elsewhere(0, world_size=1), main(SLEEPS), handled)

    found = once(waiting(0), waiting(1), waiting(3), other), once(waiting(0), waiting(1), waiting(3), late)

    for one in (*found, twice([by_itself], [by_itself], 6.0)):
        assert wait_text(handles) in sentence_of(first(one))


def test_a_silent_rank_of_two_is_likely_missing() -> None:
    pair = [group(members="0-1", at=4)]
    waits_for_it = rank_with(0, groups=pair, calls=[call(5)], frames=REDUCING, age=60.0, world_size=2)
    silent = replace(rank_with(1, kind=Kind.ERROR, text="", state=RankState.UNRESPONSIVE, world_size=2), evidence=None)

    verdict = first(once(waits_for_it, silent))

    assert (verdict.kind, verdict.ranks, verdict.certainty) == (VerdictKind.MISSING, (1,), Certainty.LIKELY)
    assert "has likely not reached" in sentence_of(verdict)


@pytest.mark.parametrize("change", [{"size": 8192, "shapes": "[2048]"}, {"types": "float64"}])
def test_ranks_that_exchange_different_data_are_a_mismatch(approved: Approved, change: dict[str, object]) -> None:
    other = rank_with(2, groups=[group(at=4)], calls=[call(5).replace(**change)])

    found = once(waiting(0), waiting(1), other, waiting(3))

    assert (kinds(found), first(found).ranks) == (["mismatch"], (2,))
    approved(sentence_of(first(found)))


def test_ranks_that_make_a_group_wait_for_its_members(approved: Approved) -> None:
    new = GroupSeen(library="torch", name="new_group 0-3", title="0-3", members="0-3", size=4)
    made = call(None, "new_group", group="new_group 0-3", timeout=None, types="", shapes="", size=None)
    frames = (MAIN, Place(file="/venv/torch/distributed/distributed_c10d.py", line=9, function="new_group"))

    def making(number: int) -> RankEvidence:
        return rank_with(number, groups=[group(at=0), new], calls=[made], frames=frames, age=60.0)

    def barrier(number: int) -> RankEvidence:
        return rank_with(number, groups=[group(at=0)], calls=[call(1, "barrier")], age=60.0)

    both = once(making(0), making(1), barrier(2), barrier(3))
    alone = once(making(0), *(elsewhere(n, 0, age=70.0) for n in (1, 2, 3)))

    assert (kinds(both), kinds(alone)) == (["order"], ["order"])
    approved(sentence_of(first(both)))
    approved(sentence_of(first(alone)), "alone")


def test_a_rank_that_waits_for_a_waiting_rank_is_no_culprit() -> None:
    tensor, data = group("t", "0-1", title="tp"), group("d", "1-2", title="dp")
    ranks = [
        rank_with(0, groups=[tensor], calls=[call(1, group="t")], world_size=3),
        rank_with(1, groups=[tensor, data], calls=[call(1, "all_gather", group="d")], world_size=3),
        rank_with(2, groups=[data], frames=LOADING, age=60.0, world_size=3),
    ]

    found = once(*ranks)

    assert kinds(found) == ["missing"]
    assert (first(found).ranks, first(found).group) == ((2,), "dp")
    assert "rank 0 is also blocked in all_reduce #1 of tp" in evidence_of(first(found))


def test_a_rank_missing_from_two_groups_gets_one_verdict() -> None:
    data, tensor = group("d", "0-2", title="dp"), group("t", "2-3", title="tp")
    ranks = [
        *(rank_with(n, groups=[data], calls=[call(1, group="d")]) for n in (0, 1)),
        rank_with(2, groups=[data, tensor], frames=LOADING, age=60.0),
        rank_with(3, groups=[tensor], calls=[call(1, "all_gather", group="t")]),
    ]

    found = once(*ranks)

    assert kinds(found) == ["missing"]
    assert (first(found).ranks, first(found).others, first(found).group) == ((2,), (0, 1), "dp")
    assert "rank 3 is also blocked in all_gather #1 of tp" in evidence_of(first(found))


@pytest.mark.parametrize(("tag", "timeout"), [(12, None), (-1, None), (None, None), (None, 1800.0)])
def test_a_receive_is_shown_with_its_tag_if_known(approved: Approved, tag: int | None, timeout: float | None) -> None:
    receives = call(None, "recv", peer=1, is_receive=True, tag=tag, timeout=timeout)
    receiving = rank_with(0, groups=[group(at=4)], calls=[receives], world_size=2)

    found = first(once(receiving, elsewhere(1, world_size=2)))

    assert (found.kind, found.ranks) == (VerdictKind.PARTNER, (1,))
    assert ("tag 12" in sentence_of(found)) == (tag == 12)
    assert command_of(found) == ("dbg-attach where 0-1" if tag == 12 else "dbg-attach interrupt 1")
    approved(sentence_of(found))


@pytest.mark.parametrize(("tag", "kind"), [(11, "partner"), (12, "unknown"), (None, "unknown")])
def test_a_send_with_another_tag_is_no_partner(approved: Approved, tag: int | None, kind: str) -> None:
    receives = call(None, "recv", peer=1, is_receive=True, tag=12)
    sends = call(None, "send", peer=0, tag=tag)
    job = [rank_with(n, groups=[group(at=4)], calls=[one], world_size=2) for n, one in enumerate((receives, sends))]

    found = first(once(*job))

    assert found.kind.value == kind
    approved(sentence_of(found))


def test_a_complete_collective_that_does_not_end_is_unknown() -> None:
    everybody = [waiting(n) for n in range(4)]

    first_look, second_look = once(*everybody), twice(everybody, everybody)

    assert not first_look.is_settled
    assert kinds(second_look) == ["unknown"]
    assert "all 4 ranks have waited in all_reduce #5 of dp_0" in sentence_of(first(second_look))
    assert "no rank is missing" in sentence_of(first(second_look))


def test_stacks_give_a_likely_verdict_if_the_recorder_is_off() -> None:
    off = SourceSeen(library="torch", version="2.13.0", limitation="the recorder is off")
    bare = [rank_with(n, frames=REDUCING, age=60.0, evidence=Evidence(sources=(off,))) for n in range(3)]

    found = first(once(*bare, rank_with(3, frames=LOADING, age=60.0, evidence=Evidence(sources=(off,)))))

    assert (found.kind, found.ranks, found.certainty) == (VerdictKind.MISSING, (3,), Certainty.LIKELY)
    assert evidence_of(found)[-1] == "torch 2.13.0: the recorder is off"
    assert found.group is None


JOINING = (MAIN, Place(file="/v/torch/distributed/distributed_c10d.py", line=9, function="init_process_group"))


def test_ranks_that_never_connected_are_missing_from_collectives_in_stacks(approved: Approved) -> None:
    found = once(*(rank_with(n, frames=JOINING, age=30.0, evidence=Evidence()) for n in range(3)))

    assert (kinds(found), first(found).cause) == (["missing"], VerdictKind.ABSENT)
    approved(sentence_of(first(found)))
    assert first(found).next is None


# ------------------------------------------------------------------------------------------------- ranks by themselves


@pytest.mark.parametrize("end", [{}, {"reason": "died"}], ids=["usual", "os._exit"])
def test_a_job_whose_ranks_have_ended_well_has_no_culprit(approved: Approved, end: dict[str, Any]) -> None:
    one = ended(exit=0, world_size=None, **end)

    found = twice([one], [one])

    assert (kinds(found), exit_status(found.verdicts)) == (["ended"], 0)
    approved(sentence_of(first(found)))


def test_a_rank_aborted_by_its_library_is_shown_with_the_collective(approved: Approved) -> None:
    how: dict[str, Any] = {"state": RankState.EXITED, "exit": -signal.SIGABRT, "since": NOW - 3, "world_size": None}

    found = once(rank_with(2, kind=Kind.LOST, frames=REDUCING, **how))

    assert (first(found).kind, first(found).ranks) == (VerdictKind.DEAD, (2,))
    approved(sentence_of(first(found)))


def test_the_last_stop_is_not_mentioned_after_an_end(approved: Approved) -> None:
    one = ended(exit=-9, cause="from root@login1's debugger", world_size=1)
    limit = Limit(kind=LimitKind.COLLECTIVES, seconds=1800.0, name="gloo")
    stop = changed(one.rank, state=RankState.STOPPED, limit=limit)
    killed = replace(one, rank=one.rank.replace(halt=stop.halt))

    assert "gloo" not in sentence_of(first(once(killed)))
    assert "gloo" not in sentence_of(first(once(replace(killed, rank=killed.rank.replace(end=End(exit=-9))))))
    approved(sentence_of(first(once(killed))))


def test_a_stopped_rank_without_waiting_ranks_is_reported(approved: Approved) -> None:
    found = once(elsewhere(0, state=RankState.STOPPED, where=MAIN, since=NOW - 240, world_size=1))

    assert kinds(found) == ["waiting"]
    approved(sentence_of(first(found)))


def test_ranks_that_never_connected_are_reported() -> None:
    moving = [elsewhere(n, 8, age=0.1) for n in (0, 1)]

    found = twice([elsewhere(n, 5, age=0.1) for n in (0, 1)], moving)

    assert kinds(found) == ["absent", "busy"]
    assert sentence_of(first(found)) == "ranks 2-3 have never connected; 2 of 4 ranks have"


def test_silent_ranks_of_a_busy_job_make_the_verdict_unknown(approved: Approved) -> None:
    before, now = ([elsewhere(0, step, age=0.1), elsewhere(1, step, age=0.1), silent(2), silent(3)] for step in (5, 8))

    found = twice(before, now)

    assert kinds(found) == ["unknown"]
    approved(sentence_of(first(found)))


def test_ranks_disconnected_while_asked_count_as_silent(approved: Approved) -> None:
    gone = [elsewhere(0, 8, age=0.1), elsewhere(1, 8, age=0.1), *(without_answer(elsewhere(n)) for n in (2, 3))]
    lost = [elsewhere(0, 8, age=0.1), *(without_answer(elsewhere(n, state=RankState.LOST)) for n in (1, 2, 3))]

    assert kinds(twice(gone, gone)) == ["unknown"]
    found = twice(lost, lost)
    assert kinds(found)[0] == "dead"
    approved(sentence_of(first(found)))


# -------------------------------------------------------------------------------------------------------------- motion


def test_a_busy_job_is_reported_with_its_progress(approved: Approved) -> None:
    found = twice([elsewhere(n, 5, age=0.1) for n in range(4)], [elsewhere(n, 8, age=0.1) for n in range(4)])

    assert kinds(found) == ["busy"]
    approved(sentence_of(first(found)))
    assert exit_status(found.verdicts) == 0


def test_one_look_at_a_young_collective_is_not_conclusive() -> None:
    def young(number: int) -> RankEvidence:
        return rank_with(number, groups=[group(at=4)], calls=[call(5, age=0.4)], frames=REDUCING, age=0.4)

    job = [young(0), young(1), young(3), elsewhere(2, age=0.4)]

    assert not once(*job).is_settled
    assert not twice(job, job).is_settled
    assert kinds(twice(job, job, seconds=5.0)) == ["missing"]


def test_a_working_rank_that_others_await_is_not_blamed_at_once(approved: Approved) -> None:
    def job(place: Place, age: float) -> list[RankEvidence]:
        others = [
            rank_with(n, groups=[group(at=4)], calls=[call(5, age=age)], frames=REDUCING, age=age) for n in (0, 1, 3)
        ]
        return [*others, elsewhere(2, frames=(MAIN, place), age=0.2)]

    found = twice(job(OTHER, 20.0), job(LOADING[-1], 21.0))
    later = twice(job(OTHER, 70.0), job(LOADING[-1], 71.0))

    assert (kinds(found), kinds(later)) == (["busy"], ["missing"])
    approved(show_verdicts(found.verdicts, color=False))


LOCKING = Place(file="/venv/lib/python3.11/site-packages/filelock/_api.py", line=9, function="acquire")


def computing(number: int, cpu: float, world_size: int = 4) -> RankEvidence:
    """Return a rank whose C code has had a processor for so many seconds, as where ``loss.item()`` spins."""
    one = waits(elsewhere(number, age=0.5, world_size=world_size), main(in_c_code("loss.item")))
    assert one.evidence is not None
    return replace(one, evidence=replace(one.evidence, process=ProcessSeen(state="R", main_cpu=cpu)))


@pytest.mark.parametrize("age", [0.5, 8.0])
def test_a_rank_computing_at_one_place_is_neither_busy_nor_stuck(approved: Approved, age: float) -> None:
    def rank(cpu: float) -> RankEvidence:
        one = computing(0, cpu, world_size=1)
        return replace(one, answer=one.answer.replace(age=age))

    found = twice([rank(10.0)], [rank(10.9)])

    assert kinds(found) == ["unknown"]
    approved(sentence_of(first(found)))
    assert (found.is_settled, exit_status(found.verdicts)) == (False, 6)
    assert twice([rank(10.0)], [rank(15.0)], seconds=5.0).is_settled


def test_an_awaited_rank_that_computes_is_neither_blamed_nor_busy(approved: Approved) -> None:
    def job(cpu: float, age: float) -> list[RankEvidence]:
        others = [
            rank_with(n, groups=[group(at=4)], calls=[call(5, age=age)], frames=REDUCING, age=age) for n in (0, 1, 3)
        ]
        return [*others, computing(2, cpu)]

    found = twice(job(1.0, 20.0), job(1.9, 21.0))
    later = twice(job(1.0, 20.0), job(6.0, 25.0), seconds=5.0)

    assert (kinds(found), found.is_settled) == (["unknown"], False)
    assert (kinds(later), later.is_settled, exit_status(later.verdicts)) == (["unknown"], True, 6)
    approved(sentence_of(first(later)))
    assert kinds(twice(job(1.0, 70.0), job(1.9, 71.0)))[0] == "missing"


WORKER = NamedProcess(pid=99)


@pytest.mark.parametrize(
    ("holder", "does", "seconds"),
    [
        pytest.param(None, ActivityInfo(what=Activity.FILE_LOCK, name="/data/lock"), None, id="a file lock"),
        pytest.param(None, ActivityInfo(what=Activity.LOCK_FILE, name="/data/f", seconds=3.0), 8.0, id="an old file"),
        pytest.param(
            99, ActivityInfo(what=Activity.LOADER, count=0, processes=(WORKER,)), None, id="a worker of DataLoader"
        ),
    ],
)
def test_a_polling_rank_waits_though_its_library_line_changes(
    holder: int | None, does: ActivityInfo, seconds: float | None
) -> None:
    later = does.replace(seconds=seconds)

    def rank(number: int, line: int, does: ActivityInfo = later) -> RankEvidence:
        frames = (MAIN, LOCKING.replace(line=line))
        return waits(elsewhere(number, frames=frames, age=0.02, world_size=2), main(does).replace(holder=holder))

    before, now = [rank(0, 5, does), rank(1, 6, does)], [rank(0, 7), rank(1, 5)]
    early, late = twice(before, now), twice(before, now, seconds=5.0)
    other = twice([rank(0, 5, SHARD), rank(1, 5)], now, seconds=5.0)

    assert (kinds(early), early.is_settled, exit_status(early.verdicts)) == (["unknown"], False, 6)
    assert (kinds(late), late.is_settled, exit_status(late.verdicts)) == (["waiting"], True, 1)
    assert (first(late).ranks, first(late).age) == ((0, 1), 5.0)
    assert [one.ranks for one in other.verdicts if one.kind is VerdictKind.WAITING] == [(1,)]


def in_mpi(number: int, cpu: float, line: int = 7, *, seconds: float = 0.4) -> RankEvidence:
    """Return a rank in a call of mpi4py, which keeps a processor busy."""
    world = GroupSeen(library="mpi4py", name="W", title="W", members="0-3", backend="mpi")
    evidence = Evidence(
        sources=(SourceSeen(library="mpi4py", limitation="mpi4py counts no calls"),),
        groups=(world,),
        collectives=(CollectiveSeen(group="W", name="Allreduce", state=CollectiveState.ENQUEUED),),
        process=ProcessSeen(state="R", main_cpu=cpu),
        waits=(main(ActivityInfo(what=Activity.MPI, name="comm.Allreduce", place=MAIN)),),
    )
    polling = Place(file="/venv/lib/python3.11/site-packages/mpi4py/poll.py", line=line, function="poll")
    return rank_with(number, frames=(MAIN, polling), age=seconds, evidence=evidence)


def test_a_rank_spinning_in_mpi_is_not_busy() -> None:
    crashed = without_answer(elsewhere(3, state=RankState.EXITED, exit=1, since=NOW - 0.5))
    before = [*(in_mpi(n, 1.0) for n in range(3)), crashed]
    now = [*(in_mpi(n, 2.0, line=9) for n in range(3)), crashed]

    assert kinds(twice(before, now)) == ["dead"]
    everybody = twice([in_mpi(n, 1.0) for n in range(4)], [in_mpi(n, 2.0, line=9) for n in range(4)])
    assert kinds(everybody) == ["unknown"]
    assert exit_status(everybody.verdicts) == 6
    assert not everybody.is_settled


def test_a_rank_in_finalize_after_its_program_is_missing(approved: Approved) -> None:
    one = elsewhere(3, state=RankState.EXITED, reason=None, since=NOW - 8)
    ended = without_answer(replace(one, rank=one.rank.replace(end=End(kind=EndKind.FINALIZES))))
    everybody = [*(in_mpi(n, 1.0, seconds=9.0) for n in range(3)), ended]

    found = first(once(*everybody))

    assert (found.kind, found.ranks, found.others) == (VerdictKind.MISSING, (3,), (0, 1, 2))
    approved(sentence_of(found))


# ---------------------------------------------------------------------------------------------------------- properties

NUMBERS = st.one_of(st.none(), st.integers(-1, 4))
TEXTS = st.sampled_from(["", "0", "1", "dp", "\x1b[31m", "0-3", "x" * 300])
FRAMES = st.sampled_from([(), LOADING, REDUCING])
AGES = st.one_of(st.none(), st.floats(0, 100))


def calls() -> st.SearchStrategy[CollectiveSeen]:
    return st.builds(
        CollectiveSeen,
        group=TEXTS,
        name=st.sampled_from(["all_reduce", "broadcast", "recv", "send", ""]),
        state=st.sampled_from(CollectiveState),
        sequence=NUMBERS,
        peer=st.one_of(st.none(), st.integers(0, 4)),
        is_receive=st.booleans(),
        size=st.one_of(st.none(), st.integers(0, 2)),
        types=TEXTS,
        age=AGES,
        timeout=AGES,
    )


def groups() -> st.SearchStrategy[GroupSeen]:
    return st.builds(
        GroupSeen,
        library=st.sampled_from(["torch", "mpi4py"]),
        name=TEXTS,
        title=TEXTS,
        members=st.sampled_from(["", "0-3", "0-1", "9", "nonsense", "0-99999999"]),
        size=st.one_of(st.none(), st.integers(0, 4)),
        enqueued=NUMBERS,
        started=NUMBERS,
        completed=NUMBERS,
    )


def activities() -> st.SearchStrategy[ActivityInfo]:
    processes = st.builds(NamedProcess, pid=st.sampled_from([8800, 8801]), name=TEXTS, command=TEXTS)
    return st.builds(
        ActivityInfo,
        what=st.sampled_from(Activity),
        target=st.one_of(st.none(), st.sampled_from(Target)),
        name=TEXTS,
        function=TEXTS,
        names=st.lists(TEXTS, max_size=2).map(tuple),
        processes=st.lists(processes, max_size=2).map(tuple),
        place=st.sampled_from([None, MAIN]),
        seconds=AGES,
    )


def evidence() -> st.SearchStrategy[Evidence]:
    threads = st.builds(
        ThreadWait,
        thread=TEXTS,
        does=activities(),
        is_main=st.booleans(),
        number=st.integers(0, 2),
        awaits=st.lists(st.integers(0, 2), max_size=2).map(tuple),
        holder=st.sampled_from([None, 8800, 8801]),
        frames=FRAMES,
    )
    return st.builds(
        Evidence,
        sources=st.lists(st.builds(SourceSeen, library=st.just("torch"), limitation=TEXTS), max_size=1).map(tuple),
        groups=st.lists(groups(), max_size=3).map(tuple),
        collectives=st.lists(calls(), max_size=4).map(tuple),
        waits=st.lists(threads, max_size=2).map(tuple),
        process=st.one_of(st.none(), st.builds(ProcessSeen, state=st.sampled_from(["", "T", "R"]), main_cpu=AGES)),
    )


@st.composite
def ranks(draw: Callable[[st.SearchStrategy[object]], object], number: int) -> RankEvidence:
    one = rank_with(
        number,
        frames=draw(FRAMES),  # type: ignore[arg-type]
        age=draw(AGES),  # type: ignore[arg-type]
        kind=draw(st.sampled_from(Kind)),  # type: ignore[arg-type]
        text=draw(st.sampled_from(["running", "\x1b[2J"])),  # type: ignore[arg-type]
        found=draw(st.sampled_from([None, *Finding])),  # type: ignore[arg-type]
        state=draw(st.sampled_from(RankState)),
        exit=draw(st.sampled_from([None, 0, -9])),
        where=draw(st.sampled_from([None, MAIN])),
        world_size=draw(st.sampled_from([None, 4, 6])),
    )
    return replace(one, evidence=draw(st.one_of(st.none(), evidence())))  # type: ignore[arg-type]


def test_thousands_of_open_calls_give_one_verdict() -> None:
    many = tuple(call(5 + n, age=60.0) for n in range(2500))
    everybody = [rank_with(n, groups=[group(at=4)], calls=many, frames=REDUCING, age=60.0) for n in range(3)]

    found = once(*everybody, elsewhere(3))

    assert kinds(found) == ["missing"]
    assert first(found).sequence == 5
    assert done(4).state is CollectiveState.COMPLETED
