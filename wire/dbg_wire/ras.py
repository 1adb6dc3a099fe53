"""What NCCL's RAS tells of a job's communicators: the replies of its client port, and the rows of an answer.

RAS (NCCL 2.24 and newer) knows the communicators of all processes of a job, and who of them does not answer. Since
2.28.7 it replies in JSON; older ones reply in a text for people, which names only communicators with problems.
"""

import json
import re
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

from .bounds import MAX_PID, Count, InvalidMessage, Pid, Sentence, elements, integers
from .errors import PeerError, printable
from .limits import KIB, MAX_ITEMS, MAX_TEXT
from .records import Record, Row, decode_record, encode_record, fitted

MARKER = "ras"

MAX_ROWS = MAX_ITEMS - 1
MAX_ROW_CHARACTERS = 400 * KIB
"""Rows and characters that one answer has: an answer is below MAX_CONTROL_BYTES even if each quote is escaped."""

IN_PROGRESS = 7
"""NCCL's ncclInProgress: a communicator that is being made."""

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


class RasRank(Row, tag="rank"):
    """A rank of a communicator, with its number there, and its process."""

    communicator: Sentence
    rank: Count
    state: Sentence
    host: Sentence = ""
    pid: Annotated[int, integers(0, MAX_PID)] | None = None
    device: Sentence = ""
    counts: Annotated[tuple[OperationCount, ...], elements(64)] = ()


class RasProcess(Row, tag="process"):
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

_NUMBER = "[0-9]{1,18}"
_NO_COMMA = re.compile(r'("nvml_dev": *\d+)\s*\n(\s*"status")')
_HEAD = re.compile(r"#\d+-\d+ \(([0-9a-f]+)\) (INCOMPLETE|ERROR|MISMATCH)")
_RANK = re.compile(
    rf"  Rank ({_NUMBER})(?: has (?:launched up to operation ({_NUMBER})|(not launched any operations)|status (\w+)))?"
    rf" -- (?:GPU (.+?) managed by process ({_NUMBER}) on node (\S+)|\[.*\])"
)
_SEVERAL = re.compile(
    rf"  \d+ ranks have (?:launched up to operation ({_NUMBER})|(not launched any operations)|status (\w+))"
)
_OPERATION = re.compile(r"  Communicator ranks have different (\w+) operation counts")
_PROCESS = re.compile(rf"  Process ({_NUMBER}) on node (\S+) managing")
_STATES = {"NOCOMM": LEFT, "INIT": INITIALIZING, "RUNNING": RUNNING, "FINALIZE": FINALIZING, "ABORT": ABORTED}


def parse_reply(text: str) -> RasStatus:
    """Return what a reply tells, in either form. Raises PeerError for a text that is no reply of RAS."""
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    if "NCCL version" not in text:
        raise PeerError("a reply that is none of NCCL's RAS")
    return _parse_text(text)


# ---------------------------------------------------------------------------------------------------------------- JSON


def _parse_json(text: str) -> RasStatus:
    try:
        # NCCL 2.28.9 leaves out a comma before the status of a missing rank.
        document = json.loads(_NO_COMMA.sub(r"\1,\n\2", text))
        communicators, ranks = [], []
        for found in document["communicators"]:
            name = str(found["hash"]).removeprefix("0x")
            missing = [_rank(name, one, _why_missing(one["status"])) for one in found.get("missing_ranks", ())]
            communicators.append(fitted(RasCommunicator, name=name, size=int(found["size"]), missing=len(missing)))
            ranks += [*missing, *(_rank(name, one, _state(one["status"])) for one in found["ranks"])]
        timeouts = document.get("ras", {}).get("timeouts_count", 0)
        seen = fitted(RasSeen, version=str(document.get("nccl_version", "")), timeouts=int(timeouts))
        return RasStatus(seen=seen, communicators=tuple(communicators), ranks=tuple(ranks))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, InvalidMessage):
        raise PeerError("a reply of NCCL's RAS that can't be read") from None


def _rank(name: str, found: dict[str, Any], state: str) -> RasRank:
    counts = found.get("collective_counts", {})
    return fitted(
        RasRank,
        communicator=name,
        rank=int(found["rank"]),
        state=state,
        host=str(found["host"]),
        pid=int(found["pid"]),
        device=str(found["cuda_dev"]),
        counts=tuple(fitted(OperationCount, name=kind, count=int(count)) for kind, count in counts.items()),
    )


def _state(status: dict[str, Any]) -> str:
    if status["abort_flag"]:
        return ABORTED
    if status["finalize_called"] or status["destroy_flag"]:
        return FINALIZING
    if {status["init_state"], status["async_error"]} - {0, IN_PROGRESS}:
        return FAILED
    return INITIALIZING if status["init_state"] else RUNNING


def _why_missing(status: dict[str, Any]) -> str:
    return DEAD if status["considered_dead"] else UNRESPONSIVE if status["unresponsive"] else LEFT


# ---------------------------------------------------------------------------------------------------------------- text


def _parse_text(text: str) -> RasStatus:
    version = re.search(r"NCCL version (\S+)", text)
    timeouts = re.search(rf"Encountered ({_NUMBER}) communication timeout", text)
    ranks = [rank for section in re.split(r"\n\s*\n", text) for rank in _ranks_of(section.splitlines())]
    missing = [rank.communicator for rank in ranks if rank.state in MISSING]
    names = dict.fromkeys(found[1] for found in _HEAD.finditer(text))
    processes = (one for section in re.split(r"\n\s*\n", text) for one in _processes_of(section.splitlines()))
    return RasStatus(
        seen=fitted(
            RasSeen, version=version[1] if version else "", timeouts=min(int(timeouts[1]), 10**6) if timeouts else 0
        ),
        communicators=tuple(fitted(RasCommunicator, name=name, missing=missing.count(name)) for name in names),
        ranks=tuple(ranks),
        processes=tuple(processes),
    )


def _ranks_of(lines: Sequence[str]) -> Iterator[RasRank]:
    """Yield the ranks of one paragraph on a communicator."""
    at = next((number for number, line in enumerate(lines) if _HEAD.match(line)), None)
    if at is None:
        return
    head = cast(re.Match[str], _HEAD.match(lines[at]))
    operation, told = "", None
    for line in lines[at + 1 :]:
        if (kind := _OPERATION.match(line)) is not None:
            operation, told = kind[1], None
        elif (several := _SEVERAL.match(line)) is not None:
            told = (several[1] or ("0" if several[2] else None), several[3])
        elif (rank := _RANK.match(line)) is not None:
            own = (rank[2] or ("0" if rank[3] else None), rank[4])
            count, status = own if any(own) else told or (None, None)
            yield _text_rank(head, rank, operation, count, status)


def _text_rank(
    head: re.Match[str], rank: re.Match[str], operation: str, count: str | None, status: str | None
) -> RasRank:
    state = {"INCOMPLETE": UNRESPONSIVE, "ERROR": FAILED}.get(head[2], _STATES.get(status or "", UNKNOWN))
    counts = (fitted(OperationCount, name=operation or "operations", count=int(count)),) if count is not None else ()
    return fitted(
        RasRank,
        communicator=head[1],
        rank=int(rank[1]),
        state=state,
        host=rank[7] or "",
        pid=int(rank[6]) if rank[6] else None,
        device=(rank[5] or "").partition(" ")[0],
        counts=counts,
    )


def _processes_of(lines: Sequence[str]) -> Iterator[RasProcess]:
    if not lines or lines[0] not in ("INCOMPLETE", "DEAD"):
        return
    state = DEAD if lines[0] == "DEAD" else UNRESPONSIVE
    for line in lines:
        if (found := _PROCESS.match(line)) is not None:
            yield fitted(RasProcess, state=state, pid=int(found[1]), host=found[2])


# ---------------------------------------------------------------------------------------------------------------- rows


def encode_status(status: RasStatus) -> tuple[str, ...]:
    """Return the rows of an answer; ranks that are there are left out first if all are too many."""
    missing = [rank for rank in status.ranks if rank.state in MISSING]
    there = [rank for rank in status.ranks if rank.state not in MISSING]
    rows: list[str] = []
    size, left_out = 0, 0
    records: Iterable[Record] = (*status.communicators, *status.processes, *missing, *there)
    for record in records:
        row = encode_record(record)
        if len(row) > MAX_TEXT or size + len(row) > MAX_ROW_CHARACTERS or len(rows) >= MAX_ROWS - 1:
            left_out += 1
            continue
        size += len(row)
        rows.append(row)
    seen = fitted(RasSeen, version=status.seen.version, timeouts=status.seen.timeouts, left_out=left_out)
    return (MARKER, encode_record(seen), *rows)


def decode_status(rows: Sequence[str]) -> RasStatus | None:
    """Return what the rows of an answer tell, None if they are of another answer. Raises PeerError for wrong rows."""
    if not rows or rows[0] != MARKER:
        return None
    found: dict[type[Record], list[Any]] = {kind: [] for kind in typing.get_args(RasRecord)}
    for row in rows[1:]:
        record = _decode(row)
        found[type(record)].append(record)
    return RasStatus(
        seen=found[RasSeen][0] if found[RasSeen] else RasSeen(),
        communicators=tuple(found[RasCommunicator]),
        ranks=tuple(found[RasRank]),
        processes=tuple(found[RasProcess]),
    )


def _decode(row: str) -> RasRecord:
    try:
        record: RasRecord = decode_record(RasRecord, row)
    except InvalidMessage as error:
        raise PeerError(f"an answer on NCCL's RAS that can't be read ({printable(str(error))})") from None
    return record
