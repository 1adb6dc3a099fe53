"""What is known about a rank, as the broker sends it and ``list`` prints it."""

import enum
import signal
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.records.record import (
    MAX_RANK,
    Age,
    Count,
    FreeText,
    Integer,
    Items,
    Key,
    Line,
    Name,
    Path,
    Pid,
    RankNumber,
    Real,
    Record,
    Sentence,
    Serial,
    Word,
    elements,
    integers,
)

_T = TypeVar("_T")

PUDB = "pudb"
PDB = "pdb"

ENGINES = (PUDB, PDB)
"""All of them, the default first."""

DEFAULT_ENGINE = PUDB
"""The debugger that opens if neither terminal nor stop nor rank names one."""

LINE_ENGINE = PDB
"""The debugger that reads and prints lines; every other debugger draws a screen."""

CRASH = "crash"
"""Reason of a stopped rank that is kept after an exception that nothing has caught."""

DIED = "died"
"""Reason of an exited rank whose process was found gone without a goodbye: killed, crashed, or ended by os._exit."""

WITHOUT_TRACEBACK = "without a traceback (as by os._exit)"
"""The detail of a rank that ended by itself without a goodbye, and whose status its guard knows."""

IN_FINALIZE = "its process goes on into MPI_Finalize, which waits for all ranks"
"""The detail of a rank whose program has ended, though its process may wait for others for as long as they take."""


class RankState(str, enum.Enum):
    """The states of a rank; a table of the broker says which state may follow which."""

    RUNNING = "running"
    STOPPED = "stopped"
    HELD = "held"
    UNRESPONSIVE = "unresponsive"
    LOST = "lost"
    EXITED = "exited"


LIVE_STATES = frozenset({RankState.RUNNING, RankState.STOPPED, RankState.HELD, RankState.UNRESPONSIVE})
"""States in which the rank's connection is up."""


class Place(Record):
    """The place of a thread in the program."""

    file: Path
    line: Line
    function: Path


Stack = Annotated[tuple[Place, ...], elements(limits.MAX_STACK_FRAMES)]
"""The frames of a thread, outermost first."""


class ThreadStack(Record):
    """One Python thread of a rank, by its name; ``halted`` tells whether it is the thread that stands in a stop."""

    name: FreeText
    frames: Stack
    halted: bool = False


ThreadStacks = Annotated[tuple[ThreadStack, ...], elements(limits.MAX_THREADS)]
"""The Python threads of a rank, without the debugger's own."""


class Coordinate(Record):
    """A rank's index on one axis of the job's mesh, such as ``tp`` 3."""

    axis: FreeText
    index: Integer


class RankIdentity(Record):
    """Which rank of which job this is.

    ``key`` is its identity for programs: the job and a slash first and the rest opaque, stable over reconnects and
    brokers.
    """

    key: Key
    job: Name
    run: Name
    host: Name
    rank: RankNumber


SUBRUN = "--"
"""Separates the run of ranks that a program has started from the program's own run, which is in front of it."""


class Numbering(str, enum.Enum):
    """The source of a process's rank number."""

    NONE = "none"
    """No source: a program of one process, a child of a rank, or a parent that waits for its ranks."""
    LAUNCHER = "launcher"
    """The variables of a launcher, which children inherit."""
    LIBRARY = "library"
    """torch.distributed, MPI or another library that has connected this process."""


class Placement(Record):
    """The place of a rank in its job, as far as its launcher and its program tell it."""

    local_rank: RankNumber | None = None
    world_size: Annotated[int, integers(1, MAX_RANK)] | None = None
    coordinates: Annotated[tuple[Coordinate, ...], Items] = ()
    numbering: Numbering = Numbering.LAUNCHER


class RankProcess(Record, omit_defaults=True):
    """The process of a rank; ``release`` and ``python`` are the versions of its agent and interpreter.

    ``name`` is the process name of a child, such as ``VllmWorker-1``; empty if it has none.
    """

    pid: Pid
    script: Path
    directory: Path
    release: Word
    python: Word
    name: FreeText = ""


class ListedStop(Record, omit_defaults=True):
    """The stop or hold of a rank; for a rank that has ended, its last one.

    ``number`` counts the stops and holds of the process; None if they can't be told from one another. ``reason`` is
    None for a hold. ``detail`` adds a sentence to the reason: a crash's exception. ``limit`` is the time limit that
    ``detail`` ends with, as in StopInfo.
    """

    number: Serial | None = None
    reason: Sentence | None = None
    where: Place | None = None
    detail: FreeText = ""
    limit: FreeText = ""
    limit_seconds: Age | None = None


class ListedEnd(Record, omit_defaults=True):
    """How a rank has ended, or what is known of that before its connection ends.

    ``exit`` is the process's exit status, negative for a signal, or None if it is unknown. ``died`` says that the
    process was found gone without a goodbye. ``detail`` is what ended it.
    """

    exit: Integer | None = None
    died: bool = False
    detail: FreeText = ""


class SeatCounts(Record, omit_defaults=True):
    """Who types at a rank, whether that terminal is silent just now, and how many only look."""

    driver: Sentence | None = None
    driver_silent: bool = False
    watchers: Integer = 0


NO_STOP, NO_END, NO_SEATS, NO_PLACEMENT = ListedStop(), ListedEnd(), SeatCounts(), Placement()


class _Flat(Generic[_T]):
    """Descriptor of a field of a nested record, which a rank has under a name of its own."""

    def __init__(self, read: "Callable[[RankInfo], _T]") -> None:
        self._read = read

    def __get__(self, rank: "RankInfo", kind: "type[RankInfo]") -> _T:
        return self._read(rank)


class RankInfo(Record, omit_defaults=True):
    """All that the broker tells about one rank; :func:`rank_document` is the same as JSON shows it to users.

    People use ``address`` (``host:rank`` or ``host:rank.child``). ``placement`` is None for a session that is no rank
    of a job: that of a stock debugger. ``since`` is the wall-clock time of the last change of state, in seconds since
    the epoch, for display only. ``waits_in`` names the collective that a step has gone into and has not left; it is
    empty for any other rank. ``passed`` is the last stop that the rank passed without stopping, and why. With
    ``will_stop`` a break-in is pending: the rank stops as soon as it can. ``epoch`` is
    that of its registration: of two records of one rank, from two brokers, the one with the higher epoch counts.

    What nested records hold can be read from the rank itself, under the names that JSON has.
    """

    identity: RankIdentity
    process: RankProcess
    address: Sentence
    state: RankState
    placement: Placement | None = None
    child: Integer | None = None
    since: Real = 0.0
    halt: ListedStop = NO_STOP
    end: ListedEnd = NO_END
    engine: Sentence | None = None
    queued: Integer = 0
    seats: SeatCounts = NO_SEATS
    waits_in: FreeText = ""
    passed: FreeText = ""
    will_stop: bool = False
    epoch: Count = 0

    key = _Flat(lambda rank: rank.identity.key)
    job = _Flat(lambda rank: rank.identity.job)
    run = _Flat(lambda rank: rank.identity.run)
    host = _Flat(lambda rank: rank.identity.host)
    rank = _Flat(lambda rank: rank.identity.rank)
    local_rank = _Flat(lambda rank: (rank.placement or NO_PLACEMENT).local_rank)
    world_size = _Flat(lambda rank: (rank.placement or NO_PLACEMENT).world_size)
    coordinates = _Flat(lambda rank: (rank.placement or NO_PLACEMENT).coordinates)
    pid = _Flat(lambda rank: rank.process.pid)
    script = _Flat(lambda rank: rank.process.script)
    directory = _Flat(lambda rank: rank.process.directory)
    release = _Flat(lambda rank: rank.process.release)
    python = _Flat(lambda rank: rank.process.python)
    name = _Flat(lambda rank: rank.process.name)
    stop = _Flat(lambda rank: rank.halt.number)
    where = _Flat(lambda rank: rank.halt.where)
    reason = _Flat(lambda rank: DIED if rank.end.died else rank.halt.reason)
    detail = _Flat(lambda rank: rank.end.detail or rank.halt.detail)
    # How a rank has ended stands where the time limit of its last stop would.
    limit = _Flat(lambda rank: "" if rank.end.detail else rank.halt.limit)
    limit_seconds = _Flat(lambda rank: None if rank.end.detail else rank.halt.limit_seconds)
    exit = _Flat(lambda rank: rank.end.exit)
    driver = _Flat(lambda rank: rank.seats.driver)
    driver_silent = _Flat(lambda rank: rank.seats.driver_silent)
    watchers = _Flat(lambda rank: rank.seats.watchers)

    @property
    def occasion(self) -> float:
        """Return what tells the present stop of this rank from its other stops.

        ``since`` alone does not: a broker that is started anew, or a wall clock that is set, shows another time for
        the same stop.
        """
        return self.since if self.stop is None else self.stop

    @property
    def is_classic(self) -> bool:
        """Tell whether this is a stock debugger without an agent, ``host:?1``, whose ``rank`` means nothing."""
        return self.placement is None

    @property
    def is_paused(self) -> bool:
        """Return whether somebody has stopped it, or it is held for such a rank; what is kept after a crash is not."""
        return self.state is RankState.HELD or (self.state is RankState.STOPPED and self.reason != CRASH)

    @property
    def full_address(self) -> str:
        """Return the address that is unique over jobs, ``job/host:rank``."""
        return f"{self.job}/{self.address}"


JSON_NAMES = (
    *("key", "address", "job", "run", "host", "rank", "local_rank", "world_size", "child", "pid", "script"),
    *("directory", "state", "reason", "where", "engine", "queued", "since", "driver", "watchers", "exit", "detail"),
    *("coordinates", "driver_silent", "limit", "limit_seconds", "waits_in", "release", "python", "stop", "passed"),
    *("name", "will_stop"),
)


def rank_document(rank: RankInfo, names: Sequence[str] = JSON_NAMES) -> dict[str, Any]:
    """Return a rank as JSON shows it to users: one flat object."""
    document: dict[str, Any] = msgspec.to_builtins({name: getattr(rank, name) for name in names})
    return document


def rank_order(rank: RankInfo) -> tuple[str, int, int, str, int, str]:
    """Return what sorts ranks as people list them: by job, number and child."""
    return rank.job, rank.rank, -1 if rank.child is None else rank.child, rank.address, rank.pid, rank.key


def describe_exit(rank: RankInfo) -> str:
    """Return how an exited rank ended, and who ended it: ``killed by SIGTERM from `timeout 60`, whose time was up``."""
    short = exit_state(rank)
    said = rank.detail.partition("; ")[0]
    # The broker puts the signal at the beginning, and who sent it behind that.
    name = short.removeprefix("killed by ")
    is_told = name != short and any(said.startswith(f"{name} {word}from ") for word in ("", "likely "))
    if rank.detail == WITHOUT_TRACEBACK:
        return f"{short} {WITHOUT_TRACEBACK}"
    return f"killed by {printable(said)}" if is_told else short


def fatal_error(rank: RankInfo) -> str:
    """Return the exception that ended an exited rank, ``ValueError: bad batch``, or an empty text."""
    failed = rank.exit is not None and rank.exit > 0 and rank.detail not in (IN_FINALIZE, WITHOUT_TRACEBACK)
    return rank.detail if failed else ""


def exit_state(rank: RankInfo) -> str:
    """Return how an exited rank ended in a few words, e.g. ``killed by SIGKILL``."""
    status = rank.exit
    if status is None:
        return DIED if rank.reason == DIED else "exited"
    if status >= 0:
        return f"exited with status {status}"
    return f"killed by {signal_name(-status)}"


def signal_name(number: int) -> str:
    """Return what a signal is called, ``SIGTERM``, or ``signal 99`` if it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
