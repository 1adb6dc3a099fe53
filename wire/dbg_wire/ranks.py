"""What is known of a rank, as the broker tells it and ``--list`` prints it."""

import enum
from typing import Annotated

from . import limits
from .bounds import MAX_RANK, AtMost, Line, Number, Path, Sentence, Text
from .records import Record


class RankState(str, enum.Enum):
    """Name the states of a rank; what may follow what is a table in :mod:`dbg_wire.states`."""

    RUNNING = "running"
    STOPPED = "stopped"
    HELD = "held"
    UNRESPONSIVE = "unresponsive"
    LOST = "lost"
    EXITED = "exited"


DIED = "died"
"""Reason of an exited rank whose process was found gone without a goodbye: killed, crashed, or ended by os._exit."""

LIVE_STATES = frozenset({RankState.RUNNING, RankState.STOPPED, RankState.HELD, RankState.UNRESPONSIVE})
"""States in which the rank's connection is up."""


class Place(Record):
    """Say where in the program a thread is."""

    file: Path
    line: Line
    function: Path


Stack = Annotated[tuple[Place, ...], AtMost(limits.MAX_STACK_FRAMES)]
"""Where a thread is and how it came there, outermost frame first."""


class Breakpoint(Record):
    """Name a breakpoint by its file's absolute path, its line, and the expression that must be true there, if any.

    ``text`` is what stands in the line that the rank runs, without the blanks around it; empty if that is unknown.
    """

    file: Annotated[str, Text(limits.MAX_PATH, begin="/", is_shown=True, meaning="an absolute path")]
    line: Annotated[int, Number(1, MAX_RANK)]
    condition: Annotated[str, Text(limits.MAX_CONDITION)] | None = None
    text: Annotated[str, Text(limits.MAX_LINE_TEXT)] = ""

    def compared(self) -> object:
        """Return what makes it the same breakpoint, whatever its line holds by now."""
        return self.file, self.line, self.condition


class Coordinate(Record):
    """Say where on one axis of the job's mesh a rank is, such as ``tp`` 3."""

    axis: str
    index: int


class RankInfo(Record):
    """Describe one rank.

    ``key`` is its identity (job, run, rank, child, pid) as one opaque string, stable over reconnects and brokers;
    people use ``address`` (``host:rank`` or ``host:rank.child``). ``since`` is wall-clock seconds since the epoch of
    the last change of state, for display alone. ``exit`` is the process's exit status, negative for a signal, or None
    while it lives or if nobody knows. ``where`` and ``reason`` are None while the rank runs; of an exited one they
    say what was so at last, or that it :data:`DIED`. ``detail`` adds a sentence to the reason: a crash's exception.
    ``driver_silent`` says that nothing is heard of the driver just now. ``release`` and ``python`` are the versions of
    the rank's agent and interpreter, empty from a broker that does not tell them.
    """

    key: Sentence
    address: Sentence
    job: Sentence
    run: Sentence
    host: Sentence
    rank: int
    local_rank: int | None
    world_size: int | None
    child: int | None
    pid: int
    script: Sentence
    directory: Sentence
    state: RankState
    reason: Sentence | None = None
    where: Place | None = None
    engine: Sentence | None = None
    queued: int = 0
    since: float = 0.0
    driver: Sentence | None = None
    watchers: int = 0
    exit: int | None = None
    detail: str = ""
    coordinates: tuple[Coordinate, ...] = ()
    driver_silent: bool = False
    release: str = ""
    python: str = ""

    @property
    def is_classic(self) -> bool:
        """Tell whether it is a stock debugger without an agent, ``host:?1``, whose ``rank`` means nothing."""
        return self.address.rpartition(":")[2].startswith("?")

    @property
    def full_address(self) -> str:
        """Return the address that is unique over jobs, ``job/host:rank``."""
        return f"{self.job}/{self.address}"
