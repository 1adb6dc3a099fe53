"""What a rank tells of why it does not go on: collectives, waiting threads, its process, and its code.

They are rows of an answer. A rank's process group has the same ``name`` in all its members.
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
"""Frames of a waiting thread, the innermost ones."""

MAX_AWAITED = 64
"""Threads and tasks that one wait is for: a group of tasks may be larger, and its first ones tell why."""

MAX_NAMES = 32
"""Names, and processes, that one wait tells of."""

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
    """The thread handles an exception, whatever it is in besides."""
    UNKNOWN = "unknown"


class What(str, enum.Enum):
    """What a thread, a task of asyncio or a process is in; the fields of a :class:`Doing` say more.

    The word before the dot is the :class:`WaitKind`.
    """

    LOCK = "lock.lock"
    """``thread`` holds the lock ``name``, empty if that isn't known."""
    OWN_LOCK = "lock.own-lock"
    """A lock that the thread holds already."""
    PROCESS_LOCK = "lock.process-lock"
    """A lock of multiprocessing, which another process may hold."""
    TASK_LOCK = "lock.task-lock"
    """A lock of asyncio."""
    CONDITION = "lock.condition"
    EVENT = "lock.event"
    SEMAPHORE = "lock.semaphore"
    BARRIER = "lock.barrier"
    """``count`` of ``total`` threads are there."""
    THREADING = "lock.threading"
    """The method ``function`` of an object of threading or asyncio that can't be read."""
    JOIN = "lock.join"
    """The end of ``thread``."""
    SHUTDOWN = "lock.shutdown"
    """The program has ended, but for the threads ``names``."""
    FUTURE = "lock.future"
    """The result of the future ``name``, whose state is ``state``, from ``thread`` or one of ``processes``."""
    TASK_FUTURE = "lock.task-future"
    """A future of asyncio, in ``function``."""
    FUTURES = "lock.futures"
    TASKS = "lock.tasks"
    """``count`` tasks of asyncio, the first of which are ``names``."""
    OTHER_TASKS = "lock.other-tasks"
    THREAD_CALL = "lock.thread-call"
    """A function that asyncio runs in a thread."""
    NATIVE_LOCK = "lock.native-lock"
    """A lock or a thread's end in C code."""
    QUEUE_GET = "data.queue-get"
    QUEUE_PUT = "data.queue-put"
    QUEUE_JOIN = "data.queue-join"
    POOL_WORK = "data.pool-work"
    """A thread of a pool waits for work."""
    STORE_KEY = "data.store-key"
    """The key ``name`` of torch's store ``owner``, which is of the class ``module``."""
    LOADER = "data.loader"
    """The worker number ``count`` of torch's DataLoader, which is the process of ``processes``."""
    BATCH = "data.batch"
    """A batch that any worker of a DataLoader may bring."""
    RAY_IDLE = "data.ray-idle"
    """A worker of Ray waits for a call."""
    MESSAGE = "child.message"
    """A message over the connection ``name`` of multiprocessing, from one of ``processes``."""
    MESSAGES = "child.messages"
    POOL_RESULT = "child.pool-result"
    """A result of a pool; ``processes`` are its workers that have ended."""
    CHILD_END = "child.child-end"
    """The end of one of ``processes``, that of any child if it is empty."""
    CHILD_OUTPUT = "child.child-output"
    RAY_GET = "child.ray-get"
    """Results of the actors ``names`` of Ray, which are ``processes`` as far as they run on this host."""
    FILE_LOCK = "file.file-lock"
    """The lock of the file ``name``, which ``processes`` hold."""
    LOCK_FILE = "file.lock-file"
    """The file ``name`` is a lock as long as it exists, for ``seconds`` by now, and ``processes`` have it open."""
    POLLED_FILE = "file.polled-file"
    """A file, ``name`` if it is known, that a loop looks for, with ``seconds`` of sleep between."""
    OPEN = "file.open"
    LOOK_AT = "file.look-at"
    """A path that a system call is given."""
    READ = "file.read"
    WRITE = "file.write"
    POLL = "file.poll"
    """``count`` is the number of further descriptors."""
    ON_DESCRIPTOR = "file.on-descriptor"
    """The system call ``function`` on a descriptor."""
    DESCRIPTOR_LOCK = "file.descriptor-lock"
    """The lock of a file that is open, which ``processes`` hold."""
    LISTEN = "socket.listen"
    CONNECT = "socket.connect"
    SELECT = "socket.select"
    """Events of many descriptors."""
    STREAM_READ = "socket.stream-read"
    STREAM_WRITE = "socket.stream-write"
    SERVE = "socket.serve"
    SLEEP = "sleep.sleep"
    """For ``seconds`` if they are known; ``function`` is a function of C that sleeps."""
    SIGNAL = "unknown.signal"
    LOOPS = "sleep.loops"
    """The function ``function`` calls ``names`` again and again, one of which sleeps, for ``seconds`` if known."""
    EVENT_LOOP = "loop.event-loop"
    COLLECTIVE = "collective.collective"
    """``name``; ``address`` is that of the store at which torch's first group is made."""
    MPI = "collective.mpi"
    MPI_REQUEST = "collective.mpi-request"
    JAX = "collective.jax"
    WORK = "collective.work"
    """The call ``name`` of torch that has been begun before."""
    GROUP_CALL = "collective.group-call"
    """The method ``name`` of the process group ``owner``."""
    NATIVE = "native.native"
    """C code, which is called ``function`` where that is known, in the system call ``state``."""
    RUNS = "python.runs"
    """Python code."""
    READY = "python.ready"
    """A task that nothing keeps."""
    NO_CODE = "unknown.no-code"
    UNREADABLE = "unknown.unreadable"
    """``state`` is the error of a look at it."""
    STOP = "debugger.stop"
    """A stop of ours."""
    PDB = "file.pdb"
    """Another debugger, which waits for a person to type."""
    RAISED = "ended.raised"
    """The error ``name`` has ended the thread ``seconds`` ago."""
    HANDLES = "handled.handles"
    """The thread handles the error ``name``."""
    GONE = "unknown.gone"
    """The process has ended."""
    SUSPENDED = "unknown.suspended"
    TRACED = "unknown.traced"
    DISK = "unknown.disk"
    """A disk or a file system."""
    SYSTEM_CALL = "unknown.system-call"
    """The call ``function``."""
    COMPUTES = "native.computes"
    UNKNOWN = "unknown.unknown"


class Target(str, enum.Enum):
    """The kind of file that a descriptor stands for; what its name is stands in brackets."""

    FILE = "file"
    """(its path)"""
    DEVICE = "device"
    """(its path)"""
    TERMINAL = "terminal"
    """The terminal at the process's standard input (its path)."""
    INPUT = "input"
    """A pipe that is the process's standard input and that no process here writes to."""
    SOCKET = "socket"
    """(its two addresses, or its number)"""
    PIPE = "pipe"
    """``processes`` of a :class:`Doing` have its other end."""
    FULL_PIPE = "full-pipe"
    OTHER = "other"
    """(as the kernel names it, or its number)"""


_KINDS_OF_TARGETS = {
    Target.SOCKET: WaitKind.SOCKET,
    Target.FULL_PIPE: WaitKind.CHILD,
    Target.OTHER: WaitKind.UNKNOWN,
    Target.PIPE: WaitKind.UNKNOWN,
}
"""The kind of a wait for a descriptor; that of the others is FILE."""


class Relation(str, enum.Enum):
    """How a process stands to the one that tells of it."""

    OTHER = "other"
    CHILD = "child"
    PARENT = "parent"
    ITSELF = "itself"
    SAME_PROGRAM = "same-program"


class NamedProcess(Record, omit_defaults=True):
    """A process of the host: ``name`` is what multiprocessing calls it, ``command`` its command line.

    ``status`` is that with which it has ended, negative for a signal, if it is known.
    """

    pid: Count
    relation: Relation = Relation.OTHER
    name: Sentence = ""
    command: Sentence = ""
    has_ended: bool = False
    status: Annotated[int, integers()] | None = None


class Doing(Record, omit_defaults=True):
    """What a thread, a task or a process is in, or waits for; each :class:`What` says which fields it has.

    ``name`` is how the program names it, with its ``owner`` or ``module``, or its path. ``place`` is where the thread
    is in the user's code. ``more`` processes or names are left out. ``at_exit`` is the function of ``atexit`` that
    calls it all, once the program has ended.
    """

    what: What
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
        """Return the kind of the wait."""
        is_of_others = any(one.relation is not Relation.ITSELF for one in self.processes)
        if is_of_others and (self.what is What.FUTURE or self.target is Target.PIPE):
            return WaitKind.CHILD
        of_target = _KINDS_OF_TARGETS.get(self.target) if self.target is not None else None
        return of_target or WaitKind(self.what.partition(".")[0])


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


class ThreadWait(Row, tag="wait"):
    """What one thread or asyncio task is in.

    ``awaits`` are the ``number`` of each thread and task of the rank without which the wait does not end. ``holder`` is
    the process on the rank's host that alone has what it waits for, such as the lock of a file, None if that isn't
    known. ``is_sure`` says that the kernel or the interpreter tells it, not the code alone. ``frames`` are the
    innermost ones, outermost first.
    """

    thread: Sentence
    does: Doing
    is_main: bool = False
    number: Count = 0
    awaits: Annotated[tuple[Count, ...], elements(MAX_AWAITED)] = ()
    is_sure: bool = False
    frames: InnermostFrames = ()
    holder: Count | None = None

    @property
    def kind(self) -> WaitKind:
        """Return the kind of the wait."""
        return self.does.kind


class OtherProcess(Row, tag="other-process"):
    """A process of the rank's host that is no thread of it and for which one waits, and what it does."""

    pid: Count
    does: Doing
    holder: Count | None = None


class ProcessSeen(Row, tag="process"):
    """The rank's process, as its kernel sees it; by the amounts two looks are told apart.

    ``state`` is the letter of /proc. ``main_cpu`` are seconds of the main thread, ``input`` and ``output`` bytes that
    the program itself has read and written. ``tracer`` is the process that traces it. ``killed`` is how often the
    kernel has ended a process of its control group for lack of memory.
    """

    state: Sentence = ""
    main_cpu: Amount | None = None
    input: Amount | None = None
    output: Amount | None = None
    tracer: NamedProcess | None = None
    killed: Count = 0


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
