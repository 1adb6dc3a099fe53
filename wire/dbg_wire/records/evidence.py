"""Rows of an answer that explain why a rank makes no progress: its collectives, waiting threads and process.

A process group has the same ``name`` in all its member ranks.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from dbg_wire.limits import KIB, MAX_ANSWER_BYTES, MAX_TEXT
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import (
    MAX_NUMBER,
    Age,
    Count,
    RankNumber,
    Record,
    Row,
    Sentence,
    Word,
    elements,
    integers,
    length_of,
    reals,
    rows_by_kind,
    within_bytes,
)

MAX_WAIT_FRAMES = 40
"""Maximum number of frames of a waiting thread; the innermost frames are kept."""

MAX_AWAITED = 64
"""Maximum number of threads and tasks that are listed for one wait. If a thread waits for more, the first ones are
enough to explain the wait."""

MAX_NAMES = 32
"""Maximum number of names that are listed for one wait; also the maximum number of processes."""

MAX_COLLECTIVES = 64
"""Maximum number of collectives that one rank reports. The oldest unfinished ones are kept: they explain a hang."""

MAX_EVIDENCE_BYTES = MAX_ANSWER_BYTES // 2 - 4 * KIB
"""Maximum size of the records of one answer, in bytes: about half of the answer, because it may also contain stacks."""

Amount = Annotated[float, reals(0.0, MAX_NUMBER)]
"""A total of seconds or bytes, which only grows."""

InnermostFrames = Annotated[tuple[Place, ...], elements(MAX_WAIT_FRAMES)]


class CollectiveState(str, enum.Enum):
    """Progress of a collective in one rank."""

    ENQUEUED = "enqueued"
    """The program has called the collective, which may not have started yet."""
    STARTED = "started"
    """The collective exchanges data or waits for the other ranks."""
    COMPLETED = "completed"


class WaitKind(str, enum.Enum):
    """Kind of activity or wait of a thread."""

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
    """The event loop of asyncio waits for its tasks."""
    DEBUGGER = "debugger"
    """A stop of this debugger."""
    ENDED = "ended"
    """An exception has ended the thread."""
    HANDLED = "handled"
    """The thread handles an exception. This takes precedence over all other kinds."""
    UNKNOWN = "unknown"


class Activity(str, enum.Enum):
    """Activity or wait of a thread, an asyncio task or a process.

    A member's text says what the thread does or what it waits for. The names in it are fields of an
    :class:`ActivityInfo`, which has the details. The word before the dot is the :class:`WaitKind`.
    """

    LOCK = "lock.lock"
    """The lock ``name``, which ``thread`` holds; each of the two is empty if it is unknown."""
    OWN_LOCK = "lock.own-lock"
    """A lock that the thread already holds."""
    PROCESS_LOCK = "lock.process-lock"
    """A lock of multiprocessing; another process may hold it."""
    TASK_LOCK = "lock.task-lock"
    """A lock of asyncio."""
    CONDITION = "lock.condition"
    EVENT = "lock.event"
    SEMAPHORE = "lock.semaphore"
    BARRIER = "lock.barrier"
    """``count`` of ``total`` threads have reached the barrier."""
    THREADING = "lock.threading"
    """The method ``function`` of an object of threading or asyncio. The state of the object can't be read."""
    JOIN = "lock.join"
    """The end of the thread ``thread``."""
    SHUTDOWN = "lock.shutdown"
    """The interpreter's shutdown waits for the end of the threads ``names``."""
    FUTURE = "lock.future"
    """The result of the future ``name``, which is in ``state``. It comes from ``thread`` or one of ``processes``."""
    TASK_FUTURE = "lock.task-future"
    """The result of a future of asyncio; the function ``function`` awaits it."""
    FUTURES = "lock.futures"
    TASKS = "lock.tasks"
    """``count`` asyncio tasks; ``names`` are the first of them."""
    OTHER_TASKS = "lock.other-tasks"
    THREAD_CALL = "lock.thread-call"
    """The end of a function that asyncio runs in another thread."""
    NATIVE_LOCK = "lock.native-lock"
    """A lock, or the end of a thread; C code waits for it."""
    QUEUE_GET = "data.queue-get"
    QUEUE_PUT = "data.queue-put"
    QUEUE_JOIN = "data.queue-join"
    POOL_WORK = "data.pool-work"
    """Work for an idle thread of a pool."""
    STORE_KEY = "data.store-key"
    """The key ``name`` in torch's store ``owner``, which is of the class ``module``."""
    LOADER = "data.loader"
    """Worker number ``count`` of torch's DataLoader; its process is in ``processes``."""
    BATCH = "data.batch"
    """A batch from any worker of a DataLoader."""
    RAY_IDLE = "data.ray-idle"
    """The next call to an idle worker of Ray."""
    MESSAGE = "child.message"
    """A message over the connection ``name`` of multiprocessing, from one of ``processes``."""
    MESSAGES = "child.messages"
    POOL_RESULT = "child.pool-result"
    """A result of a pool; ``processes`` are its workers that have ended."""
    CHILD_END = "child.child-end"
    """The end of one of ``processes``, or of any child if ``processes`` is empty."""
    CHILD_OUTPUT = "child.child-output"
    RAY_GET = "child.ray-get"
    """Results of the Ray actors ``names``; ``processes`` are the actors among these that run on this host."""
    FILE_LOCK = "file.file-lock"
    """The lock of the file ``name``; ``processes`` hold it."""
    LOCK_FILE = "file.lock-file"
    """The removal of the lock file ``name``, which has existed for ``seconds``; ``processes`` have it open."""
    POLLED_FILE = "file.polled-file"
    """A file that a loop polls, sleeping for ``seconds`` in between; ``name`` is empty if it is unknown."""
    OPEN = "file.open"
    LOOK_AT = "file.look-at"
    """A system call that has a path as its argument, such as ``stat``."""
    READ = "file.read"
    WRITE = "file.write"
    POLL = "file.poll"
    """An event on a descriptor; ``count`` is the number of other descriptors that the same call waits for."""
    ON_DESCRIPTOR = "file.on-descriptor"
    """The system call ``function`` on a descriptor."""
    DESCRIPTOR_LOCK = "file.descriptor-lock"
    """The lock of an open file; ``processes`` hold it."""
    LISTEN = "socket.listen"
    CONNECT = "socket.connect"
    SELECT = "socket.select"
    """Events of many descriptors."""
    STREAM_READ = "socket.stream-read"
    STREAM_WRITE = "socket.stream-write"
    SERVE = "socket.serve"
    SLEEP = "sleep.sleep"
    """A sleep of ``seconds`` if known; ``function`` is the C function that sleeps."""
    SIGNAL = "unknown.signal"
    LOOPS = "sleep.loops"
    """The function ``function`` calls ``names`` again and again; one of them sleeps, for ``seconds`` if known."""
    EVENT_LOOP = "loop.event-loop"
    COLLECTIVE = "collective.collective"
    """The collective ``name``; ``address`` is the store through which torch creates its first group."""
    MPI = "collective.mpi"
    MPI_REQUEST = "collective.mpi-request"
    JAX = "collective.jax"
    WORK = "collective.work"
    """The end of a collective that the program has started by torch's asynchronous call ``name``."""
    GROUP_CALL = "collective.group-call"
    """The method ``name`` of the process group ``owner``."""
    NATIVE = "native.native"
    """C code: the function ``function`` if known, in the system call ``state``."""
    RUNS = "python.runs"
    """Python code."""
    READY = "python.ready"
    """A task that is ready to run."""
    NO_CODE = "unknown.no-code"
    UNREADABLE = "unknown.unreadable"
    """The thread or process can't be read; ``state`` is the error."""
    STOP = "debugger.stop"
    """A stop of this debugger."""
    PDB = "file.pdb"
    """Another debugger that waits for a person to type."""
    RAISED = "ended.raised"
    """The error ``name`` ended the thread ``seconds`` ago."""
    HANDLES = "handled.handles"
    """The thread handles the error ``name``."""
    GONE = "unknown.gone"
    """The process has ended."""
    SUSPENDED = "unknown.suspended"
    TRACED = "unknown.traced"
    DISK = "unknown.disk"
    """A disk or a file system."""
    SYSTEM_CALL = "unknown.system-call"
    """The system call ``function``."""
    COMPUTES = "native.computes"
    UNKNOWN = "unknown.unknown"


class Target(str, enum.Enum):
    """Kind of file that a descriptor refers to. ``name`` is a field of the :class:`ActivityInfo`."""

    FILE = "file"
    """A file or directory; ``name`` is its path."""
    DEVICE = "device"
    """A device; ``name`` is its path."""
    TERMINAL = "terminal"
    """The terminal that is the process's standard input; ``name`` is its path."""
    INPUT = "input"
    """A pipe that is the process's standard input; no process on this host writes to it."""
    SOCKET = "socket"
    """A socket; ``name`` contains its two addresses, or is empty if they are unknown."""
    PIPE = "pipe"
    """A pipe; the ``processes`` of the :class:`ActivityInfo` have its other end open."""
    FULL_PIPE = "full-pipe"
    OTHER = "other"
    """Any other kind; ``name`` is the kernel's name for it, or is empty if it is unknown."""


_KINDS_OF_TARGETS = {
    Target.SOCKET: WaitKind.SOCKET,
    Target.FULL_PIPE: WaitKind.CHILD,
    Target.OTHER: WaitKind.UNKNOWN,
    Target.PIPE: WaitKind.UNKNOWN,
}
"""Kinds of waits for a descriptor, by the kind of file that it refers to. For all other kinds of files, the
:class:`Activity` defines the kind of the wait."""


class Relation(str, enum.Enum):
    """Relation of a process to the process that reports it."""

    OTHER = "other"
    CHILD = "child"
    PARENT = "parent"
    ITSELF = "itself"
    SAME_PROGRAM = "same-program"


class NamedProcess(Record, omit_defaults=True):
    """A process of the host, with its name in multiprocessing and its command line.

    ``status`` is the exit status if the process has ended and the status is known; it is negative for a signal.
    """

    pid: Count
    relation: Relation = Relation.OTHER
    name: Sentence = ""
    command: Sentence = ""
    has_ended: bool = False
    status: Annotated[int, integers()] | None = None


class ActivityInfo(Record, omit_defaults=True):
    """Activity or wait of a thread, a task or a process. The :class:`Activity` defines which fields are set.

    ``name`` is the awaited object's name in the program, with its ``owner`` or ``module``; for a file it is the path.
    ``place`` is the position of the thread in the user's code. ``more`` is the number of omitted processes or names.
    If the program has ended and its main thread is in an ``atexit`` function, ``at_exit`` is the function's name.
    """

    what: Activity
    name: Sentence = ""
    owner: Sentence = ""
    module: Sentence = ""
    function: Sentence = ""
    state: Sentence = ""
    address: Sentence = ""
    thread: Sentence = ""
    names: Annotated[tuple[Sentence, ...], elements(MAX_NAMES)] = ()
    processes: Annotated[tuple[NamedProcess, ...], elements(MAX_NAMES)] = ()
    more: Count = 0
    place: Place | None = None
    seconds: Age | None = None
    count: Count | None = None
    total: Count | None = None
    target: Target | None = None
    descriptor: Count | None = None
    at_exit: Sentence = ""

    @property
    def kind(self) -> WaitKind:
        """Kind of the wait."""
        is_of_others = any(one.relation is not Relation.ITSELF for one in self.processes)
        if is_of_others and (self.what is Activity.FUTURE or self.target is Target.PIPE):
            return WaitKind.CHILD
        of_target = _KINDS_OF_TARGETS.get(self.target) if self.target is not None else None
        return of_target or WaitKind(self.what.partition(".")[0])


class SourceSeen(Row, tag="library"):
    """A library that may record collectives; ``limitation`` says which facts are missing, why, and how to get them."""

    library: Word
    version: Sentence = ""
    limitation: Sentence = ""


class GroupSeen(Row, tag="group"):
    """A process group of the rank.

    ``title`` is its name for people. ``members`` are its global ranks as a rank set, empty if unknown. ``enqueued``,
    ``started`` and ``completed`` are the numbers of the latest collectives that have reached these states in the rank,
    None if unknown.
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
    """A collective, or a send or receive with ``peer``, that the rank has called.

    A rank reports the unfinished ones, and the last completed collective of each group.

    ``sequence`` is the number of the collective in its group, counted separately for calls with a peer, or None if the
    library does not count. ``shapes`` and ``types`` describe the inputs as text. ``size`` is in bytes. ``age`` and
    ``timeout`` are in seconds from the call. ``tag`` is the tag of a send or receive, negative for any tag, or None if
    there is no tag or it is unknown. ``root`` is the global rank that the collective starts or ends at, if known.
    ``place`` is the call in the user's code.
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


class ThreadWait(Row, tag="wait"):
    """Activity or wait of one thread or asyncio task.

    ``awaits`` lists the ``number`` of each thread and task of the rank that blocks this one. ``holder`` is the only
    process on the rank's host that has the awaited resource, such as the lock of a file, or None if it is unknown.
    ``is_sure`` means that the kernel or the interpreter reports the wait; otherwise it is deduced from the code.
    ``frames`` are the innermost frames, outermost first.
    """

    thread: Sentence
    does: ActivityInfo
    is_main: bool = False
    number: Count = 0
    awaits: Annotated[tuple[Count, ...], elements(MAX_AWAITED)] = ()
    is_sure: bool = False
    frames: InnermostFrames = ()
    holder: Count | None = None

    @property
    def kind(self) -> WaitKind:
        """Kind of the wait."""
        return self.does.kind


class OtherProcess(Row, tag="other-process"):
    """Another process on the rank's host that the rank waits for, directly or indirectly. Fields as in ThreadWait."""

    pid: Count
    does: ActivityInfo
    holder: Count | None = None


class ProcessSeen(Row, tag="process"):
    """The rank's process, as its kernel sees it.

    Comparing the amounts of two snapshots shows whether the process makes progress.

    ``state`` is the state letter in /proc. ``main_cpu`` is the processor time of the main thread in seconds. ``input``
    and ``output`` are bytes that the program itself has read and written. ``tracer`` is the process that traces it.
    ``killed`` counts the processes of its control group that the kernel killed because memory was short.
    """

    state: Sentence = ""
    main_cpu: Amount | None = None
    input: Amount | None = None
    output: Amount | None = None
    tracer: NamedProcess | None = None
    killed: Count = 0


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All evidence from one rank."""

    sources: tuple[SourceSeen, ...] = ()
    groups: tuple[GroupSeen, ...] = ()
    collectives: tuple[CollectiveSeen, ...] = ()
    waits: tuple[ThreadWait, ...] = ()
    others: tuple[OtherProcess, ...] = ()
    process: ProcessSeen | None = None


EvidenceRecord = SourceSeen | GroupSeen | CollectiveSeen | ThreadWait | OtherProcess | ProcessSeen


def evidence_in(rows: Iterable[object]) -> Evidence | None:
    """Return the evidence in the rows of an answer, or None if there is no evidence."""
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


def limit_rows(records: Iterable[EvidenceRecord]) -> tuple[EvidenceRecord, ...]:
    """Return the records that fit into MAX_EVIDENCE_BYTES, and a row with the number of omitted records, if any.

    Before records are omitted, frames with long paths are dropped from them: it is more useful to know what a thread
    waits for than where it waits.
    """
    listed = [one.replace(frames=()) if _has_long_frames(one) else one for one in records]
    kept, left_out = within_bytes(listed, MAX_EVIDENCE_BYTES)
    if left_out:
        limitation = f"{left_out} of its {len(listed)} records do not fit into an answer and are omitted"
        kept.append(SourceSeen(library="dbg-agent", limitation=limitation))
    return tuple(kept)


def _has_long_frames(record: EvidenceRecord) -> bool:
    return isinstance(record, ThreadWait) and length_of(record.frames) > MAX_TEXT
