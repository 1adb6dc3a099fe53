"""Records about a rank and its state, as the broker sends them and ``list`` prints them."""

import enum
import signal
from collections.abc import Callable
from typing import Annotated, Generic, TypeVar

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
"""All debuggers, the default first."""

DEFAULT_ENGINE = PUDB
"""Debugger that opens if the terminal, the stop and the rank name none."""

LINE_ENGINE = PDB
"""Debugger that reads and prints lines; every other debugger draws a screen."""

CRASH = "crash"
"""The ``reason`` of a stopped rank that is kept after an uncaught exception."""

WRONG_NUMBER = "wrong-number"
"""The ``reason`` of a rank that a watch has stopped at its first wrong number; the stop's ``error`` describes it."""

DIED = "died"
"""The ``reason`` of an exited rank whose process ended without a goodbye: killed, crashed, or ended by os._exit."""

WITHOUT_TRACEBACK = "without a traceback (as by os._exit)"

SOON_SECONDS = 120.0
"""Number of seconds below which the remaining time of a limit is shown in seconds, and not in minutes."""


class RankState(str, enum.Enum):
    """State of a rank. A table in the broker defines the allowed transitions."""

    RUNNING = "running"
    STOPPED = "stopped"
    HELD = "held"
    UNRESPONSIVE = "unresponsive"
    LOST = "lost"
    EXITED = "exited"


LIVE_STATES = frozenset({RankState.RUNNING, RankState.STOPPED, RankState.HELD, RankState.UNRESPONSIVE})
"""States of a connected rank."""


class Place(Record):
    """Position of a thread in the program."""

    file: Path
    line: Line
    function: Path


Stack = Annotated[tuple[Place, ...], elements(limits.MAX_STACK_FRAMES)]
"""The frames of a thread, outermost first."""


class ThreadStack(Record):
    """Stack of one Python thread of a rank; ``halted`` means that this thread is in a stop."""

    name: FreeText
    frames: Stack
    halted: bool = False


ThreadStacks = Annotated[tuple[ThreadStack, ...], elements(limits.MAX_THREADS)]
"""The Python threads of a rank, without the debugger's threads."""


class Coordinate(Record):
    """Index of a rank on one axis of the job's mesh, such as ``tp`` 3."""

    axis: FreeText
    index: Integer


class RankIdentity(Record):
    """Identity of a rank and its job.

    Programs identify the rank by its ``key``: the job, a slash, and an opaque rest. The key stays the same when the
    rank reconnects, also to another broker.
    """

    key: Key
    job: Name
    run: Name
    host: Name
    rank: RankNumber


SUBRUN = "--"
"""Separator in the name of a run that a program of another run has started: ``other-run--run``."""


class Numbering(str, enum.Enum):
    """Source of a process's rank number."""

    NONE = "none"
    """The process has no number: it is a program of one process, a child of a rank, or a parent that waits for its
    ranks."""
    LAUNCHER = "launcher"
    """The variables of a launcher; child processes inherit them."""
    LIBRARY = "library"
    """torch.distributed, MPI or another library that has connected this process."""


class Placement(Record):
    """Position of a rank in its job, as far as its launcher and its program define it."""

    local_rank: RankNumber | None = None
    world_size: Annotated[int, integers(1, MAX_RANK)] | None = None
    coordinates: Annotated[tuple[Coordinate, ...], Items] = ()
    numbering: Numbering = Numbering.LAUNCHER


class RankProcess(Record, omit_defaults=True):
    """Process of a rank; ``release`` and ``python`` are the versions of its agent and interpreter.

    ``name`` is the process name of a child, such as ``VllmWorker-1``, or empty.
    """

    pid: Pid
    script: Path
    directory: Path
    release: Word
    python: Word
    name: FreeText = ""


class LimitKind(str, enum.Enum):
    """Event at the end of a stop's time limit."""

    COLLECTIVES = "collectives"
    """Other ranks wait for this rank in collectives, which time out. The limit's name is the collectives' backend."""
    JOB = "job"
    """SLURM ends the job."""
    LEASE = "lease"
    """The stop ends, because nobody has used it for the time that the broker's option ``max_lease`` allows."""
    LAUNCHER = "launcher"
    """The launcher, which the limit names, has sent SIGTERM to a rank kept after a crash and will kill it."""


_LIMITS = {
    LimitKind.COLLECTIVES: (
        "{} collectives that wait for it time out in {}",
        "{} collectives that wait for it have timed out",
    ),
    LimitKind.JOB: ("SLURM ends the job in {1}", "the job's time is over"),
    LimitKind.LEASE: ("it resumes in {1} unless somebody types", "it resumes because nobody has typed"),
    LimitKind.LAUNCHER: ("got SIGTERM, {} kills it in {}", "got SIGTERM, {} kills it soon"),
}
"""For each kind of limit, the text before the limit is reached, and the text after it."""


class Limit(Record, omit_defaults=True):
    """The earliest time limit of a stop; ``seconds`` is the time that was left when it was reported."""

    kind: LimitKind
    seconds: Age
    name: FreeText = ""

    @property
    def text(self) -> str:
        """Sentence with the event at the end of the limit and the time left."""
        before, past = _LIMITS[self.kind]
        return (before if self.seconds else past).format(self.name, show_left(self.seconds))


def show_left(seconds: float) -> str:
    """Format the time left: in seconds close to the end, otherwise in minutes."""
    return f"{seconds / 60:.0f} min" if seconds >= SOON_SECONDS else f"{seconds:.0f} s"


class ListedStop(Record, omit_defaults=True):
    """Current stop or hold of a rank, or its final one if the rank has ended.

    ``number`` counts the stops and holds of the process; it is None if they can't be distinguished. ``reason`` is
    None for a hold, and ``where`` is also None for a hold at the process's end. ``error`` is the exception of a crash.
    """

    number: Serial | None = None
    reason: Sentence | None = None
    where: Place | None = None
    error: FreeText = ""
    limit: Limit | None = None


class EndKind(str, enum.Enum):
    """How the broker knows that a process has ended."""

    GOODBYE = "goodbye"
    """The process sent a goodbye."""
    FINALIZES = "finalizes"
    """The process sent a goodbye, but may still wait in MPI_Finalize, which waits for all ranks without a time
    limit."""
    DIED = "died"
    """The process ended without a goodbye: killed, crashed, or ended by os._exit."""


class End(Record, omit_defaults=True):
    """End of a rank.

    ``exit`` is the process's exit status, negative for a signal, or None if it is unknown. ``error`` is the exception
    that ended it. ``cause`` is the end of a sentence that names the sender of the signal; ``note`` has more details.
    """

    kind: EndKind = EndKind.GOODBYE
    exit: Integer | None = None
    error: FreeText = ""
    cause: Sentence = ""
    note: Sentence = ""

    @property
    def signal(self) -> int | None:
        """Signal that ended the process, or None."""
        return -self.exit if self.exit is not None and self.exit < 0 else None

    @property
    def is_unexplained(self) -> bool:
        """Whether the broker knows only that the process is gone, and not how it ended."""
        return self.kind is EndKind.DIED and self.exit is None

    @property
    def is_silent(self) -> bool:
        """Whether the process exited without a goodbye, and its guard has reported the exit status."""
        return self.kind is EndKind.DIED and self.exit is not None and self.exit >= 0

    @property
    def state(self) -> str:
        """The end in a few words, such as ``killed by SIGKILL``."""
        if self.exit is None:
            return DIED if self.kind is EndKind.DIED else "exited"
        return f"killed by {signal_name(self.signal)}" if self.signal else f"exited with status {self.exit}"

    @property
    def text(self) -> str:
        """The end and its cause, such as ``killed by SIGTERM from `timeout 60```."""
        return f"{self.state} {WITHOUT_TRACEBACK if self.is_silent else printable(self.cause)}".rstrip()

    @property
    def sentence(self) -> str:
        """:attr:`text` with its verb, without a subject."""
        return self.text if self.is_unexplained else f"{'was' if self.signal else 'has'} {self.text}"

    @property
    def more(self) -> str:
        """Known details in addition to the status or signal; may be empty."""
        if self.kind is EndKind.FINALIZES:
            return "its process enters MPI_Finalize, which waits for all ranks"
        if self.error or self.is_silent:
            return self.error or WITHOUT_TRACEBACK
        who = f"{signal_name(self.signal)} {self.cause}" if self.signal and self.cause else ""
        return "; ".join(filter(None, (who, self.note)))

    @property
    def detail(self) -> str:
        """The exception, or the signal and its sender; empty if neither is known."""
        return self.more or (signal_name(self.signal) if self.signal else "")


class SeatCounts(Record, omit_defaults=True):
    """Terminals at a rank: the driver, whether the driver's terminal is silent, and the number of watchers."""

    driver: Sentence | None = None
    driver_silent: bool = False
    watchers: Integer = 0


NO_STOP, NO_END, NO_SEATS, NO_PLACEMENT = ListedStop(), End(), SeatCounts(), Placement()


class _Flat(Generic[_T]):
    """Descriptor that makes a value from a nested record an attribute of the rank."""

    def __init__(self, read: "Callable[[RankInfo], _T]") -> None:
        self._read = read

    def __get__(self, rank: "RankInfo", kind: "type[RankInfo]") -> _T:
        return self._read(rank)


class RankInfo(Record, omit_defaults=True):
    """Complete state of one rank, as the broker sends it; ``list --json`` prints it as one flat object.

    ``address`` is the rank's name for people (``host:rank`` or ``host:rank.child``). ``placement`` is None for a stock
    debugger session, which is not a rank of a job. ``since`` is the wall-clock time of the last change of state, in
    seconds since the epoch, for display only. ``waits_in`` names the collective in which a step of the rank is waiting;
    it is empty for any other rank. ``passed`` is the latest stop that the rank has skipped, and why.
    ``will_stop`` means that a break-in is pending: the rank stops as soon as it can. ``epoch`` is the epoch of its
    registration. If two brokers list the same rank, the record with the higher epoch applies.

    The fields of nested records are also attributes of the rank, with the same names as in JSON.
    """

    identity: RankIdentity
    process: RankProcess
    address: Sentence
    state: RankState
    placement: Placement | None = None
    child: Integer | None = None
    since: Real = 0.0
    halt: ListedStop = NO_STOP
    end: End = NO_END
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
    reason = _Flat(lambda rank: DIED if rank.end.kind is EndKind.DIED else rank.halt.reason)
    limit = _Flat(lambda rank: rank.halt.limit.text if rank.halt.limit is not None else "")
    limit_seconds = _Flat(lambda rank: rank.halt.limit.seconds if rank.halt.limit is not None else None)
    detail = _Flat(lambda rank: "; ".join(filter(None, (rank.end.detail or rank.about, rank.limit))))
    exit = _Flat(lambda rank: rank.end.exit)
    driver = _Flat(lambda rank: rank.seats.driver)
    driver_silent = _Flat(lambda rank: rank.seats.driver_silent)
    watchers = _Flat(lambda rank: rank.seats.watchers)

    @property
    def about(self) -> str:
        """Details of the rank's end or stop in addition to state, reason and time limit; may be empty."""
        holds_exit = self.state is RankState.HELD and self.where is None
        return self.end.more or self.halt.error or ("holds its exit" if holds_exit else "")

    @property
    def stop_id(self) -> float:
        """Identifier of the current stop among the stops of this rank.

        ``since`` is not enough: after a restart of the broker, or if the wall clock is set, it differs for the same
        stop.
        """
        return self.since if self.stop is None else self.stop

    @property
    def is_classic(self) -> bool:
        """Whether this is a stock debugger without an agent, ``host:?1``. Its ``rank`` is not a rank number."""
        return self.placement is None

    @property
    def is_paused(self) -> bool:
        """Whether the rank is stopped or held. A rank that is kept after a crash is not paused."""
        return self.state is RankState.HELD or (self.state is RankState.STOPPED and self.reason != CRASH)

    @property
    def full_address(self) -> str:
        """Address with the job, ``job/host:rank``; it is unique across jobs."""
        return f"{self.job}/{self.address}"


def rank_order(rank: RankInfo) -> tuple[str, int, int, str, int, str]:
    """Return the sort key of ranks in lists for people: job, number, child."""
    return rank.job, rank.rank, -1 if rank.child is None else rank.child, rank.address, rank.pid, rank.key


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGTERM``, or ``signal 99`` if it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
