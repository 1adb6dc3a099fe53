"""What NCCL's RAS tells of a job's communicators, in the rows of an answer.

RAS (NCCL 2.24 and newer) knows the communicators of all processes of a job, and who of them does not answer.
"""

import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from dbg_wire.limits import MAX_ANSWER_BYTES, MAX_ITEMS
from dbg_wire.records.bounds import MAX_PID, Count, Pid, Sentence, elements, integers
from dbg_wire.records.record import Record, Row, fitted, within_bytes

MAX_ROWS = MAX_ITEMS - 1
MAX_ROW_BYTES = MAX_ANSWER_BYTES // 2
"""Rows and bytes that one answer has beside its first row."""

RUNNING, INITIALIZING, FINALIZING, ABORTED, FAILED = "running", "initializing", "finalizing", "aborted", "error"
UNRESPONSIVE, DEAD, LEFT, UNKNOWN = "unresponsive", "dead", "left", ""
"""States of a rank in a communicator. One that has left answers, and does not have the communicator any more."""

MISSING = frozenset({UNRESPONSIVE, DEAD, LEFT})
"""States of ranks of which RAS has no data in a communicator."""


class RasSeen(Row, tag="ras"):
    """What the reply says as a whole: NCCL's version, what its collection lacks, and how many rows were left out."""

    version: Sentence = ""
    timeouts: Count = 0
    left_out: Count = 0


class RasCommunicator(Row, tag="communicator"):
    """A communicator by its hash; ``size`` is None where the text form does not tell it."""

    name: Sentence
    size: Annotated[int, integers(0)] | None = None
    missing: Count = 0


class OperationCount(Record):
    """How many operations of one kind a rank has launched."""

    name: Sentence
    count: Count


class RasRank(Row, tag="member"):
    """A rank of a communicator, with its number there, and its process."""

    communicator: Sentence
    rank: Count
    state: Sentence
    host: Sentence = ""
    pid: Annotated[int, integers(0, MAX_PID)] | None = None
    device: Sentence = ""
    counts: Annotated[tuple[OperationCount, ...], elements(64)] = ()


class RasProcess(Row, tag="absentee"):
    """A process that the job lacks, as the text form names it."""

    state: Sentence
    pid: Pid
    host: Sentence


@dataclass(frozen=True, kw_only=True)
class RasStatus:
    """All that one reply tells."""

    seen: RasSeen
    communicators: tuple[RasCommunicator, ...] = ()
    ranks: tuple[RasRank, ...] = ()
    processes: tuple[RasProcess, ...] = ()


RasRecord = RasSeen | RasCommunicator | RasRank | RasProcess


def status_rows(status: RasStatus) -> tuple[RasRecord, ...]:
    """Return the rows of an answer; ranks that are there are left out first if all are too many."""
    missing = [rank for rank in status.ranks if rank.state in MISSING]
    there = [rank for rank in status.ranks if rank.state not in MISSING]
    records: list[RasRecord] = [*status.communicators, *status.processes, *missing, *there]
    kept, left_out = within_bytes(records[:MAX_ROWS], MAX_ROW_BYTES)
    left_out += max(0, len(records) - MAX_ROWS)
    return (fitted(RasSeen, version=status.seen.version, timeouts=status.seen.timeouts, left_out=left_out), *kept)


def status_in(rows: Iterable[object]) -> RasStatus | None:
    """Return what the rows of an answer tell, None if they are of another answer."""
    kinds = typing.get_args(RasRecord)
    found: dict[type[Record], list[Any]] = {kind: [] for kind in kinds}
    for row in rows:
        if isinstance(row, kinds):
            found[type(row)].append(row)
    if not found[RasSeen]:
        return None
    return RasStatus(
        seen=found[RasSeen][0],
        communicators=tuple(found[RasCommunicator]),
        ranks=tuple(found[RasRank]),
        processes=tuple(found[RasProcess]),
    )
