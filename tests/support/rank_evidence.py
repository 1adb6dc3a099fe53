"""Ranks with what they have told of a hang, as a terminal has it after a look."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dbg_client.why.process_groups import RankEvidence
from dbg_wire.messages import Finding, Kind, RankAnswer
from dbg_wire.records.evidence import (
    Activity,
    ActivityInfo,
    CollectiveSeen,
    CollectiveState,
    Evidence,
    EvidenceRecord,
    GroupSeen,
    SourceSeen,
)
from dbg_wire.records.ranks import Place, RankState
from tests.unit.client.fake_broker import make_rank

TORCH = SourceSeen(library="torch", version="2.13.0")
MAIN = Place(file="/home/me/train.py", line=41, function="train_step")
LOADING = (MAIN, Place(file="/home/me/data.py", line=17, function="wait_for_shard"))
REDUCING = (MAIN, Place(file="/venv/torch/distributed/distributed_c10d.py", line=9, function="all_reduce"))


def group(name: str = "0", members: str = "0-3", *, title: str = "dp_0", at: int | None = None) -> GroupSeen:
    """Return a group of torch whose rank has finished all collectives up to ``at``."""
    return GroupSeen(
        library="torch", name=name, title=title, members=members, backend="gloo", enqueued=at, started=at, completed=at
    )


def call(sequence: int | None, name: str = "all_reduce", **changes: object) -> CollectiveSeen:
    """Return an unfinished collective of group 0, called 60 s ago."""
    values: dict[str, object] = {
        "group": "0",
        "state": CollectiveState.STARTED,
        "age": 60.0,
        "timeout": 1800.0,
        "types": "float32",
        "shapes": "[1024]",
        "size": 4096,
        **changes,
    }
    return CollectiveSeen(name=name, sequence=sequence, **values)  # type: ignore[arg-type]


def done(sequence: int, name: str = "all_reduce", **changes: object) -> CollectiveSeen:
    return call(sequence, name, **{"state": CollectiveState.COMPLETED, **changes})


def rows_of(evidence: Evidence) -> tuple[EvidenceRecord, ...]:
    """Return evidence as the rows of an answer."""
    process = (evidence.process,) if evidence.process is not None else ()
    return (*evidence.sources, *evidence.groups, *evidence.collectives, *evidence.waits, *evidence.others, *process)


def rank_with(
    number: int,
    *,
    groups: Iterable[GroupSeen] = (),
    calls: Iterable[CollectiveSeen] = (),
    frames: tuple[Place, ...] = (),
    age: float | None = None,
    evidence: Evidence | None = None,
    kind: Kind = Kind.VALUE,
    text: str = "running",
    found: Finding | None = None,
    **changes: object,
) -> RankEvidence:
    """Return a rank of four that runs and has told this; ``evidence`` goes before groups and calls."""
    rank = make_rank(number, **{"state": RankState.RUNNING, "reason": None, "world_size": 4, "where": None, **changes})
    evidence = evidence or Evidence(sources=(TORCH,), groups=tuple(groups), collectives=tuple(calls))
    rows = rows_of(evidence)
    answer = RankAnswer(key=rank.key, kind=kind, text=text, frames=frames, age=age, found=found, rows=rows)
    return RankEvidence(rank=rank, answer=answer, evidence=evidence)


def waiting(number: int, sequence: int = 5, name: str = "all_reduce", **changes: object) -> RankEvidence:
    """Return a rank that waits in a collective of group 0 and has finished the one before."""
    return rank_with(
        number,
        groups=[group(at=sequence - 1)],
        calls=[call(sequence, name), done(sequence - 1)],
        **{"frames": REDUCING, "age": 60.0, **changes},  # type: ignore[arg-type]
    )


def elsewhere(number: int, finished: int = 4, **changes: object) -> RankEvidence:
    """Return a rank that has finished a collective of group 0, has called no other, and runs the user's code."""
    values = {"frames": LOADING, "age": 61.0, **changes}
    return rank_with(number, groups=[group(at=finished)], calls=[done(finished)], **values)  # type: ignore[arg-type]


def silent(number: int, **changes: object) -> RankEvidence:
    one = rank_with(number, kind=Kind.SILENT, text="did not answer", **changes)  # type: ignore[arg-type]
    return RankEvidence(rank=one.rank, answer=one.answer.replace(rows=()))


def in_c_code(name: str) -> ActivityInfo:
    """Return what a thread tells that is in a C function, called at a line of the training program."""
    return ActivityInfo(what=Activity.NATIVE, function=name, place=Place(file="train.py", line=41, function="main"))


def stuck(seconds: float) -> dict[str, Any]:
    """Return what is told of a rank whose interpreter has run no Python code for so long."""
    return {"found": Finding.STUCK, "age": seconds, "text": f"stuck in C code for {seconds:.0f} s"}


def suspended(seconds: float) -> dict[str, Any]:
    """Return what is told of a rank whose process a signal or a tracer has stopped."""
    return {"found": Finding.SUSPENDED, "age": seconds, "text": f"suspended (SIGSTOP) for {seconds:.0f} s"}
