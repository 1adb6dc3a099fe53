"""What is known about a rank, as the broker sends it and ``list`` prints it."""

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

SOON_SECONDS = 120.0
"""Seconds before a time limit from which on the time left is given in seconds, not in minutes."""


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


class LimitKind(str, enum.Enum):
    """The event that a time limit of a stop leads to."""

    COLLECTIVES = "collectives"
    """The collectives of other ranks that wait for this one time out; the limit has the name of their backend."""
    JOB = "job"
    """SLURM ends the job."""
    LEASE = "lease"
    """The stop ends by the broker's longest lease, unless somebody types."""
    LAUNCHER = "launcher"
    """The launcher, which the limit names, has sent SIGTERM to a rank that is kept after a crash, and kills it."""


_LIMITS = {
    LimitKind.COLLECTIVES: (
        "{} collectives that wait for it time out in {}",
        "{} collectives that wait for it have timed out",
    ),
    LimitKind.JOB: ("SLURM ends the job in {1}", "the job's time is over"),
    LimitKind.LEASE: ("unless somebody types, it goes on in {1}", "nobody has typed, so it goes on"),
    LimitKind.LAUNCHER: ("got SIGTERM, {} ends it in {}", "got SIGTERM, {} ends it soon"),
}
"""For each kind the text while time is left, and the text behind that."""


class Limit(Record, omit_defaults=True):
    """The time limit of a stop that ends first, and the seconds that were left of it when it was reported."""

    kind: LimitKind
    seconds: Age
    name: FreeText = ""

    @property
    def text(self) -> str:
        """Return what happens and when, as a sentence."""
        before, past = _LIMITS[self.kind]
        return (before if self.seconds else past).format(self.name, show_left(self.seconds))


def show_left(seconds: float) -> str:
    """Return the time left: in seconds close to the end, else in minutes."""
    return f"{seconds / 60:.0f} min" if seconds >= SOON_SECONDS else f"{seconds:.0f} s"


class ListedStop(Record, omit_defaults=True):
    """The stop or hold of a rank; for a rank that has ended, its last one.

    ``number`` counts the stops and holds of the process; None if they can't be told from one another. ``reason`` is
    None for a hold. ``where`` is None too for a hold at the process's end. ``error`` is the exception of a crash.
    """

    number: Serial | None = None
    reason: Sentence | None = None
    where: Place | None = None
    error: FreeText = ""
    limit: Limit | None = None


class EndKind(str, enum.Enum):
    """The way in which the broker has heard that a process ends."""

    GOODBYE = "goodbye"
    """The process has said so."""
    FINALIZES = "finalizes"
    """The process has said so, and goes on into MPI_Finalize, which waits for all ranks, for as long as they take."""
    DIED = "died"
    """It was found gone without a goodbye: killed, crashed, or ended by os._exit."""


class End(Record, omit_defaults=True):
    """How a rank has ended.

    ``exit`` is the process's exit status, negative for a signal, or None if it is unknown. ``error`` is the exception
    that ended it. ``cause`` says who sent the signal, as the end of a sentence; ``note`` says more of that.
    """

    kind: EndKind = EndKind.GOODBYE
    exit: Integer | None = None
    error: FreeText = ""
    cause: Sentence = ""
    note: Sentence = ""

    @property
    def signal(self) -> int | None:
        """Return the signal that has ended the process, if one has."""
        return -self.exit if self.exit is not None and self.exit < 0 else None

    @property
    def is_unexplained(self) -> bool:
        """Tell whether nothing is known but that the process is gone."""
        return self.kind is EndKind.DIED and self.exit is None

    @property
    def is_silent(self) -> bool:
        """Tell whether the process ended by itself without a goodbye, and its guard knows the status."""
        return self.kind is EndKind.DIED and self.exit is not None and self.exit >= 0

    @property
    def state(self) -> str:
        """Return how the process ended in a few words, e.g. ``killed by SIGKILL``."""
        if self.exit is None:
            return DIED if self.kind is EndKind.DIED else "exited"
        return f"killed by {signal_name(self.signal)}" if self.signal else f"exited with status {self.exit}"

    @property
    def text(self) -> str:
        """Return how the process ended, and who ended it: ``killed by SIGTERM from `timeout 60```."""
        return f"{self.state} {WITHOUT_TRACEBACK if self.is_silent else printable(self.cause)}".rstrip()

    @property
    def sentence(self) -> str:
        """Return :attr:`text` with its verb, without the subject."""
        return self.text if self.is_unexplained else f"{'was' if self.signal else 'has'} {self.text}"

    @property
    def more(self) -> str:
        """Return what is known beside the status or signal; empty if nothing is."""
        if self.kind is EndKind.FINALIZES:
            return "its process goes on into MPI_Finalize, which waits for all ranks"
        if self.error or self.is_silent:
            return self.error or WITHOUT_TRACEBACK
        who = f"{signal_name(self.signal)} {self.cause}" if self.signal and self.cause else ""
        return "; ".join(filter(None, (who, self.note)))

    @property
    def detail(self) -> str:
        """Return the exception, or the signal and who sent that; empty if nothing is known."""
        return self.more or (signal_name(self.signal) if self.signal else "")


class SeatCounts(Record, omit_defaults=True):
    """Who types at a rank, whether that terminal is silent just now, and how many only look."""

    driver: Sentence | None = None
    driver_silent: bool = False
    watchers: Integer = 0


NO_STOP, NO_END, NO_SEATS, NO_PLACEMENT = ListedStop(), End(), SeatCounts(), Placement()


class _Flat(Generic[_T]):
    """Descriptor of a field of a nested record, which a rank has under a name of its own."""

    def __init__(self, read: "Callable[[RankInfo], _T]") -> None:
        self._read = read

    def __get__(self, rank: "RankInfo", kind: "type[RankInfo]") -> _T:
        return self._read(rank)


class RankInfo(Record, omit_defaults=True):
    """All that the broker tells about one rank; ``list --json`` shows the same as one flat object.

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
        """Return what is to be said of its end or stop beside state, reason and time limit; empty if nothing is."""
        holds_exit = self.state is RankState.HELD and self.where is None
        return self.end.more or self.halt.error or ("holds its exit" if holds_exit else "")

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


def rank_order(rank: RankInfo) -> tuple[str, int, int, str, int, str]:
    """Return what sorts ranks as people list them: by job, number and child."""
    return rank.job, rank.rank, -1 if rank.child is None else rank.child, rank.address, rank.pid, rank.key


def signal_name(number: int) -> str:
    """Return what a signal is called, ``SIGTERM``, or ``signal 99`` if it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
