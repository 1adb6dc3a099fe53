"""What a rank tells of why it does not go on: collectives, waiting threads, its process, and its code.

The rows of an answer are a marker and then a JSON object for each record. A rank's process group has the same ``name``
in all its members.
"""

import enum
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from .bounds import MAX_NUMBER, Age, Count, InvalidMessage, RankNumber, Sentence, Word, elements, integers, reals
from .errors import PeerError
from .limits import MAX_TEXT
from .ranks import Place
from .records import Record, Row, decode_record, encode_record

MARKER = "evidence"

MAX_WAIT_FRAMES = 40
"""Frames of a waiting thread, the innermost ones: with paths of 120 characters they fit into one row."""

MAX_COLLECTIVES = 64
"""Unfinished collectives that one rank tells of: more in one group only repeat the first."""

MAX_CODE_ROWS = 2000
"""Files, packages and variables that one rank tells of: a large program loads some hundred of its own files.

One kind follows the other, so that of a rank that tells so many the last kind may be cut.
"""

Amount = Annotated[float, reals(0.0, MAX_NUMBER)]
"""A number of seconds or bytes that only grows."""

InnermostFrames = Annotated[tuple[Place, ...], elements(MAX_WAIT_FRAMES)]


class CollectiveState(str, enum.Enum):
    """How far a collective is in one rank."""

    ENQUEUED = "enqueued"
    """The program has called it; whether it has begun is not known."""
    STARTED = "started"
    """It exchanges data, or waits for the others."""
    COMPLETED = "completed"


class WaitKind(str, enum.Enum):
    """What a thread is in."""

    COLLECTIVE = "collective"
    LOCK = "lock"
    """A lock, a condition, an event, a semaphore, or another thread's end."""
    DATA = "data"
    """A queue or a data loader."""
    FILE = "file"
    SOCKET = "socket"
    CHILD = "child"
    """The end of another process, or its output."""
    SLEEP = "sleep"
    NATIVE = "native"
    """C code that is not known to wait for anything."""
    PYTHON = "python"
    """Python code: the thread works."""
    DEBUGGER = "debugger"
    """A stop of ours."""
    ENDED = "ended"
    """An exception has ended the thread."""
    UNKNOWN = "unknown"


class CodeKind(str, enum.Enum):
    """What one part of a rank's code is."""

    FILE = "file"
    PACKAGE = "package"
    VARIABLE = "variable"


class SourceSeen(Row, tag="source"):
    """A library that may know of collectives; ``lack`` says what it can't tell, why, and what would change that."""

    library: Word
    version: Sentence = ""
    lack: Sentence = ""


class GroupSeen(Row, tag="group"):
    """A process group of the rank.

    ``title`` is what people call it, ``members`` the global ranks in it as a rank set, empty if unknown. The numbers
    are those of the last collective that the rank has enqueued, started and completed in it, None if unknown.
    """

    library: Word
    name: Sentence
    title: Sentence
    members: Sentence = ""
    size: Annotated[int, integers(0)] | None = None
    backend: Sentence = ""
    enqueued: Annotated[int, integers()] | None = None
    started: Annotated[int, integers()] | None = None
    completed: Annotated[int, integers()] | None = None


class CollectiveSeen(Row, tag="collective"):
    """A collective, or a send or receive with ``peer``, that the rank has called: unfinished ones, and the last before.

    ``sequence`` counts the collectives of the group, those with a peer apart, None if the library does not count.
    ``shapes`` and ``types`` are the inputs', as text. ``size`` is in bytes, ``age`` in seconds since the call.
    ``timeout`` is in seconds from the call. ``tag`` is that of a send or receive, below zero for any tag, None
    where there are none or it is unknown. ``root`` is the global rank that a collective begins or ends at, if known.
    """

    group: Sentence
    name: Sentence
    state: CollectiveState
    sequence: Annotated[int, integers()] | None = None
    peer: RankNumber | None = None
    is_receive: bool = False
    shapes: Sentence = ""
    types: Sentence = ""
    size: Count | None = None
    age: Age | None = None
    timeout: Age | None = None
    tag: Annotated[int, integers()] | None = None
    root: RankNumber | None = None


class ThreadWait(Row, tag="wait"):
    """What one thread of the rank is in; ``text`` is the end of a sentence: ``waits for a lock that pump holds``.

    Threads of one ``deadlock`` above zero wait for each other. ``holder`` is the process on the rank's host that alone
    has what the thread waits for, such as the lock of a file, None if that isn't known. ``frames`` are the innermost
    ones, outermost first.
    """

    thread: Sentence
    kind: WaitKind
    text: Sentence
    is_main: bool = False
    deadlock: Count = 0
    frames: InnermostFrames = ()
    holder: Count | None = None


class ProcessSeen(Row, tag="process"):
    """The rank's process, as its kernel sees it; by the amounts two looks are told apart.

    ``state`` is the letter of /proc. ``cpu`` are seconds of all threads, ``main_cpu`` those of the main thread,
    ``input`` and ``output`` bytes. ``memory`` and ``memory_limit`` are bytes. ``note`` is a sentence about it, such as
    that a tracer has stopped it.
    """

    state: Sentence = ""
    system_call: Sentence = ""
    cpu: Amount | None = None
    main_cpu: Amount | None = None
    input: Amount | None = None
    output: Amount | None = None
    memory: Count | None = None
    memory_limit: Count | None = None
    note: Sentence = ""


class CodeSeen(Row, tag="code"):
    """Digests of what the rank runs; equal digests mean equal code."""

    files: Sentence = ""
    packages: Sentence = ""
    environment: Sentence = ""


class CodePart(Row, tag="part"):
    """One file with the digest of its content, package with its version, or variable with its value.

    A variable whose name is not of the field, so that its value may be a secret, has a digest instead.
    """

    kind: CodeKind
    name: Sentence
    value: Sentence


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that one rank has told."""

    sources: tuple[SourceSeen, ...] = ()
    groups: tuple[GroupSeen, ...] = ()
    collectives: tuple[CollectiveSeen, ...] = ()
    waits: tuple[ThreadWait, ...] = ()
    process: ProcessSeen | None = None
    code: CodeSeen | None = None
    parts: tuple[CodePart, ...] = field(default=(), repr=False)


EvidenceRecord = SourceSeen | GroupSeen | CollectiveSeen | ThreadWait | ProcessSeen | CodeSeen | CodePart


def encode_evidence(records: Iterable[EvidenceRecord]) -> tuple[str, ...]:
    """Return the rows of an answer. A record whose row is too long is left out."""
    rows = map(_row, records)
    return (MARKER, *(row for row in rows if len(row) <= MAX_TEXT))


def decode_evidence(rows: Sequence[str]) -> Evidence | None:
    """Return what the rows of an answer tell, None for an older rank's. Raises PeerError for rows without evidence."""
    if not rows or rows[0] != MARKER:
        return None
    found: dict[type[Record], list[EvidenceRecord]] = {kind: [] for kind in typing.get_args(EvidenceRecord)}
    for row in rows[1:]:
        record = _decode(row)
        found[type(record)].append(record)
    one = {kind: records[0] if records else None for kind, records in found.items()}
    return Evidence(
        sources=tuple(found[SourceSeen]),  # type: ignore[arg-type] # each list holds records of its class
        groups=tuple(found[GroupSeen]),  # type: ignore[arg-type]
        collectives=tuple(found[CollectiveSeen]),  # type: ignore[arg-type]
        waits=tuple(found[ThreadWait]),  # type: ignore[arg-type]
        process=one[ProcessSeen],  # type: ignore[arg-type]
        code=one[CodeSeen],  # type: ignore[arg-type]
        parts=tuple(found[CodePart]),  # type: ignore[arg-type]
    )


def _row(record: EvidenceRecord) -> str:
    row = encode_record(record)
    if len(row) > MAX_TEXT and isinstance(record, ThreadWait):
        # Long paths: what the thread waits for says more than where.
        return _row(record.replace(frames=()))
    return row


def _decode(row: str) -> EvidenceRecord:
    try:
        record: EvidenceRecord = decode_record(EvidenceRecord, row)
    except InvalidMessage as error:
        raise PeerError(f"evidence that can't be read ({error})") from None
    return record
