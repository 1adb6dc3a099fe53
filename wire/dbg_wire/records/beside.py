"""What guards are asked for, and tell: a command beside the rank, its output and end, and what NCCL says by its RAS."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from dbg_wire.limits import KIB, MAX_ANSWER_BYTES, MAX_ITEMS, MAX_TEXT
from dbg_wire.records.bounds import MAX_PID, Count, Integer, InvalidMessage, Pid, Sentence, elements, integers
from dbg_wire.records.record import Inquiry, Record, Row, fitted, rows_by_kind, within_bytes

MAX_FIRST, MAX_LAST = 64 * KIB, 32 * KIB
"""Bytes of a command's output that are kept, the first and the last: with every byte escaped below the bound of an
answer. What a listing begins with matters, and so does the error with which a command ends."""

Argument = Annotated[bytes, Meta(max_length=MAX_TEXT)]
"""An argument as the kernel takes it, which is not always a text; JSON has it in base64."""


class CommandLine(Inquiry, tag="command"):
    """A command to run: the program and its arguments."""

    arguments: Annotated[tuple[Argument, ...], elements(MAX_ITEMS)]

    def __post_init__(self) -> None:
        """Refuse what no kernel would start."""
        if not self.arguments or not self.arguments[0]:
            raise InvalidMessage("command", ".arguments name no program")
        if any(0 in one for one in self.arguments):
            raise InvalidMessage("command", ".arguments have a zero byte")

    @property
    def words(self) -> list[str]:
        """Return the program and its arguments as Python has them."""
        return [os.fsdecode(one) for one in self.arguments]


class ChildProcess(Inquiry, tag="child"):
    """A process below the rank's whose Python stack is asked for, in place of the rank's own."""

    pid: Pid


class CommandEnd(Row, tag="end"):
    """How a command has ended.

    ``status`` is its exit status, negative for a signal. ``left_out`` are the bytes of its output that are not told.
    ``ended`` says why the guard has ended it, as in ``after 10 s``; empty if it has ended by itself.
    """

    status: Integer | None = None
    left_out: Count = 0
    ended: Sentence = ""


def command_line(words: Sequence[str]) -> CommandLine:
    """Return the command of a program and its arguments."""
    return CommandLine(arguments=tuple(map(os.fsencode, words)))


def output_rows(end: CommandEnd, text: str) -> tuple[CommandEnd | str, ...]:
    """Return the rows of an answer."""
    return (end, *(text[at : at + MAX_TEXT] for at in range(0, len(text), MAX_TEXT)))


def output_in(rows: Iterable[object]) -> tuple[str, CommandEnd] | None:
    """Return what a command printed and how it ended, None for an answer without."""
    listed = tuple(rows)
    end = next((row for row in listed if isinstance(row, CommandEnd)), None)
    return None if end is None else ("".join(row for row in listed if isinstance(row, str)), end)


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
    found = rows_by_kind(rows, RasRecord)
    if not found[RasSeen]:
        return None
    return RasStatus(
        seen=found[RasSeen][0],
        communicators=found[RasCommunicator],
        ranks=found[RasRank],
        processes=found[RasProcess],
    )
