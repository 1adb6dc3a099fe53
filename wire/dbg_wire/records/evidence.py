"""What a rank tells of why it does not go on: collectives, waiting threads, its process, and its code.

They are rows of an answer. A rank's process group has the same ``name`` in all its members.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from dbg_wire.limits import KIB, MAX_ANSWER_BYTES, MAX_TEXT
from dbg_wire.records.bounds import MAX_NUMBER, Age, Count, Line, RankNumber, Sentence, Word, elements, integers, reals
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import Record, Row, length_of, rows_by_kind, within_bytes

MAX_WAIT_FRAMES = 40
"""Frames of a waiting thread, the innermost ones."""

MAX_AWAITED = 64
"""Threads and tasks that one wait is for: a group of tasks may be larger, and its first ones tell why."""

MAX_LOOPS = 32
"""Loops around the frames of a waiting thread."""

MAX_COLLECTIVES = 64
"""Unfinished collectives that one rank tells of: more in one group only repeat the first."""

MAX_EVIDENCE_BYTES = MAX_ANSWER_BYTES // 2 - 4 * KIB
"""Bytes of the records of one answer; the other half is for the stacks that it may have beside them."""

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
    LOOP = "loop"
    """The event loop of asyncio, which waits for its tasks."""
    DEBUGGER = "debugger"
    """A stop of ours."""
    ENDED = "ended"
    """An exception has ended the thread."""
    HANDLED = "handled"
    """The thread handles an exception or a signal, whatever it is in besides."""
    KEPT = "kept"
    """A variable of the thread keeps an exception that it has caught."""
    UNKNOWN = "unknown"


class SourceSeen(Row, tag="library"):
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
    where there are none or it is unknown. ``root`` is the global rank that a collective begins or ends at, if known,
    and ``place`` where the user's code has called it.
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
    place: Place | None = None


class LoopSeen(Record):
    """A loop that a frame of a thread is in: the place of the frame among those told, and the loop's lines."""

    frame: Count
    first: Line
    last: Line


class ThreadWait(Row, tag="wait"):
    """What one thread or asyncio task is in; ``text`` is the end of a sentence: ``waits for a lock that pump holds``.

    ``awaits`` are the ``number`` of each thread and task of the rank without which the wait does not end. ``holder`` is
    the process on the rank's host that alone has what it waits for, such as the lock of a file, None if that isn't
    known. ``is_sure`` says that the kernel or the interpreter tells it, not the code alone. ``frames`` are the
    innermost ones, outermost first, and ``loops`` those that they are in, the innermost first.
    """

    thread: Sentence
    kind: WaitKind
    text: Sentence
    is_main: bool = False
    number: Count = 0
    awaits: Annotated[tuple[Count, ...], elements(MAX_AWAITED)] = ()
    is_sure: bool = False
    frames: InnermostFrames = ()
    holder: Count | None = None
    loops: Annotated[tuple[LoopSeen, ...], elements(MAX_LOOPS)] = ()


class OtherProcess(Row, tag="other-process"):
    """A process of the rank's host that is no thread of it and for which one waits: what it does, as ThreadWait."""

    pid: Count
    text: Sentence
    holder: Count | None = None


class ProcessSeen(Row, tag="process"):
    """The rank's process, as its kernel sees it; by the amounts two looks are told apart.

    ``state`` is the letter of /proc. ``cpu`` are seconds of all threads, ``main_cpu`` those of the main thread,
    ``input`` and ``output`` bytes that the program itself has read and written. ``memory`` and ``memory_limit`` are
    bytes. ``note`` is a sentence about it, such as that a tracer has stopped it.
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


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that one rank has told."""

    sources: tuple[SourceSeen, ...] = ()
    groups: tuple[GroupSeen, ...] = ()
    collectives: tuple[CollectiveSeen, ...] = ()
    waits: tuple[ThreadWait, ...] = ()
    others: tuple[OtherProcess, ...] = ()
    process: ProcessSeen | None = None


EvidenceRecord = SourceSeen | GroupSeen | CollectiveSeen | ThreadWait | OtherProcess | ProcessSeen


def evidence_in(rows: Iterable[object]) -> Evidence | None:
    """Return what the rows of an answer tell; None if none of them is evidence."""
    found = rows_by_kind(rows, EvidenceRecord)
    if not any(found.values()):
        return None
    return Evidence(
        sources=found[SourceSeen],
        groups=found[GroupSeen],
        collectives=found[CollectiveSeen],
        waits=found[ThreadWait],
        others=found[OtherProcess],
        process=next(iter(found[ProcessSeen]), None),
    )


def fitting(records: Iterable[EvidenceRecord]) -> tuple[EvidenceRecord, ...]:
    """Return the rows of an answer: those that fit into MAX_EVIDENCE_BYTES, and how many do not.

    Of a thread with long paths the frames go first: what it waits for says more than where.
    """
    listed = [one.replace(frames=()) if _has_long_frames(one) else one for one in records]
    kept, left_out = within_bytes(listed, MAX_EVIDENCE_BYTES)
    if left_out:
        lack = f"{left_out} of its {len(listed)} records are left out, which are longer than an answer may be"
        kept.append(SourceSeen(library="dbg-agent", lack=lack))
    return tuple(kept)


def _has_long_frames(record: EvidenceRecord) -> bool:
    return isinstance(record, ThreadWait) and length_of(record.frames) > MAX_TEXT
