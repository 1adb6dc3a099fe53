"""What is known about a rank, as the broker sends it and ``list`` prints it."""

import enum
import signal
from typing import Annotated

from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.records.bounds import (
    MAX_RANK,
    Age,
    FreeText,
    Integer,
    Items,
    Line,
    Path,
    Real,
    Sentence,
    Serial,
    characters,
    elements,
    integers,
)
from dbg_wire.records.record import Record

CRASH = "crash"
"""Reason of a stopped rank that is kept after an exception that nothing has caught."""

DIED = "died"
"""Reason of an exited rank whose process was found gone without a goodbye: killed, crashed, or ended by os._exit."""

IN_FINALIZE = "its process goes on into MPI_Finalize, which waits for all ranks"
"""The detail of a rank whose program has ended, though its process may wait for others for as long as they take."""


class RankState(str, enum.Enum):
    """The states of a rank; a table in :mod:`dbg_wire.states` says which state may follow which."""

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


class Breakpoint(Record):
    """A breakpoint: its file's absolute path, its line, and the expression that must be true there, if any.

    ``text`` is the line's text in the file that the rank runs, without the blanks around it; empty if it is unknown.
    """

    file: Annotated[str, characters(limits.MAX_PATH, begin="/", is_shown=True, meaning="an absolute path")]
    line: Annotated[int, integers(1, MAX_RANK)]
    condition: Annotated[str, characters(limits.MAX_CONDITION)] | None = None
    text: Annotated[str, characters(limits.MAX_LINE_TEXT)] = ""

    def _compared(self) -> object:
        """Return what makes two breakpoints equal: all but the line's text, which an edit may change."""
        return self.file, self.line, self.condition

    def __eq__(self, other: object) -> bool:
        return self._compared() == other._compared() if isinstance(other, Breakpoint) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._compared())


class Coordinate(Record):
    """A rank's index on one axis of the job's mesh, such as ``tp`` 3."""

    axis: FreeText
    index: Integer


class RankInfo(Record):
    """All that the broker tells about one rank.

    ``key`` is its identity, the job and a slash first and the rest opaque, stable over reconnects and brokers;
    people use ``address`` (``host:rank`` or ``host:rank.child``). ``since`` is the wall-clock time of the last change
    of state, in seconds since the epoch, for display only. ``exit`` is the process's exit status, negative for a
    signal, or None while the process lives or if the status is unknown. ``where`` and ``reason`` are None while the
    rank runs; for an exited rank they keep their last values, or the reason is :data:`DIED`. ``detail`` adds a sentence
    to the reason: a crash's exception. ``driver_silent`` says that the driver's terminal is silent just now. ``limit``
    is the time limit that ``detail`` ends with, as in StopInfo. ``waits_in`` names the collective that a step has gone
    into and has not left; it is empty for any other rank. ``release`` and ``python`` are the versions of the rank's
    agent and interpreter, empty from a broker that does not tell them. ``stop`` is the number of the present stop or
    hold in its process; None for a rank that runs, and for a stock debugger.
    ``passed`` is the last stop that the rank passed without stopping, and why.
    """

    key: Sentence
    address: Sentence
    job: Sentence
    run: Sentence
    host: Sentence
    rank: Integer
    local_rank: Integer | None
    world_size: Integer | None
    child: Integer | None
    pid: Integer
    script: Sentence
    directory: Sentence
    state: RankState
    reason: Sentence | None = None
    where: Place | None = None
    engine: Sentence | None = None
    queued: Integer = 0
    since: Real = 0.0
    driver: Sentence | None = None
    watchers: Integer = 0
    exit: Integer | None = None
    detail: FreeText = ""
    coordinates: Annotated[tuple[Coordinate, ...], Items] = ()
    driver_silent: bool = False
    limit: FreeText = ""
    limit_seconds: Age | None = None
    waits_in: FreeText = ""
    release: FreeText = ""
    python: FreeText = ""
    stop: Serial | None = None
    passed: FreeText = ""

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
        return self.address.rpartition(":")[2].startswith("?")

    @property
    def full_address(self) -> str:
        """Return the address that is unique over jobs, ``job/host:rank``."""
        return f"{self.job}/{self.address}"


def describe_exit(rank: RankInfo) -> str:
    """Return how an exited rank ended, and who ended it: ``killed by SIGTERM from `timeout 60`, whose time was up``."""
    short = exit_state(rank)
    said = rank.detail.partition("; ")[0]
    # The broker puts the signal at the beginning, and who sent it behind that.
    name = short.removeprefix("killed by ")
    is_told = name != short and any(said.startswith(f"{name} {word}from ") for word in ("", "likely "))
    return f"killed by {printable(said)}" if is_told else short


def fatal_error(rank: RankInfo) -> str:
    """Return the exception that ended an exited rank, ``ValueError: bad batch``, or an empty text."""
    failed = rank.exit is not None and rank.exit > 0 and rank.detail != IN_FINALIZE
    return rank.detail.partition("; ")[0] if failed else ""


def exit_state(rank: RankInfo) -> str:
    """Return how an exited rank ended in a few words, e.g. ``killed by SIGKILL``."""
    status = rank.exit
    if status is None:
        return DIED if rank.reason == DIED else "exited"
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
