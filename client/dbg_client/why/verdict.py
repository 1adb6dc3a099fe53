"""The facts of a verdict on a job that may hang: what it is about, the ranks, and how it is known. Pure.

No sentence is made here: ``sentences`` and ``lines`` word a verdict at the reader's width.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dbg_client.why.collective_matching import PendingCollective
from dbg_wire.errors import Remedy

if TYPE_CHECKING:
    from dbg_client.why.scene import Scene

PATIENT_SECONDS = 60.0
"""Seconds for which ranks may wait for one that works, before it counts as missing all the same."""

BUSY_STATUS, CULPRIT_STATUS, UNKNOWN_STATUS = 0, 1, 6
"""Exit statuses of ``why``."""


class VerdictKind(str, enum.Enum):
    """What is wrong, the worst first; the order is that of the verdicts in an answer."""

    MISSING = "missing"
    """A rank has not come to a collective in which others wait."""
    ORDER = "order"
    """Ranks are in different collectives where they should be in one."""
    MISMATCH = "mismatch"
    """Ranks are in one collective with other shapes, types or sizes."""
    PARTNER = "partner"
    """A receive whose peer does not send, or the reverse."""
    DEAD = "dead"
    ABSENT = "absent"
    """A rank has never connected."""
    SUSPENDED = "suspended"
    DEADLOCK = "deadlock"
    """Threads of a rank wait for each other, or ranks for what a rank in their collective holds."""
    STUCK = "stuck"
    """A rank is in C code that does not return."""
    WAITING = "waiting"
    """A rank waits for data, a file, a socket, another process, a lock, or a person."""
    ENDED = "ended"
    """A rank has ended its program, with status 0."""
    UNKNOWN = "unknown"
    """It can't be told whether or why the job hangs."""
    BUSY = "busy"
    """The ranks move; nothing is wrong."""


HARMLESS = frozenset({VerdictKind.ENDED, VerdictKind.UNKNOWN, VerdictKind.BUSY})
"""Kinds that name no culprit."""

IN_COLLECTIVES = frozenset({VerdictKind.MISSING, VerdictKind.ORDER, VerdictKind.MISMATCH, VerdictKind.PARTNER})
"""Kinds that name a collective in which ranks wait."""

_BADNESS = {kind: number for number, kind in enumerate(VerdictKind)}


class Certainty(str, enum.Enum):
    """How a verdict is known."""

    SURE = "sure"
    """A library has recorded it, or the kernel, the interpreter or the broker tells it."""
    LIKELY = "likely"
    """It is made from stacks."""


def certainty_of(standings: Sequence[PendingCollective]) -> Certainty:
    """Return how it is known who has called these collectives, and who has not."""
    return Certainty.SURE if all(one.is_recorded for one in standings) else Certainty.LIKELY


class Topic(enum.Enum):
    """What a finding is; the first ones are ends of the graph of waits."""

    MISSING = enum.auto()
    """Ranks have not come to a collective."""
    NO_PARTNER = enum.auto()
    """A rank has not come to the other half of a send or receive."""
    CIRCLE = enum.auto()
    """Ranks wait for each other in collectives."""
    HELD = enum.auto()
    """A rank waits in a collective for ranks that wait for what it has, such as the lock of a file."""
    CONFLICT = enum.auto()
    """Ranks call one collective by different names, or with other data."""
    LONELY = enum.auto()
    """One rank alone has made the group."""
    PEERLESS = enum.auto()
    """A send or receive to nobody who is known."""
    DOUBTFUL = enum.auto()
    """Silent ranks may be missing."""
    COMPLETE = enum.auto()
    """All wait, and nobody is missing."""
    OWN = enum.auto()
    """What ranks do by themselves."""
    ABSENT = enum.auto()
    """Ranks have never connected."""
    SILENT = enum.auto()
    """Ranks live and did not answer."""
    UNMOVED = enum.auto()
    """Ranks have not got on, and nothing tells what they wait for."""
    GOES_ON = enum.auto()
    """A collective whose ranks exchange data."""
    BUSY = enum.auto()
    """Everybody gets on."""
    NOBODY = enum.auto()
    """No rank has an agent."""
    NO_DUMP = enum.auto()
    """Ranks have left no dump of the recorder."""
    ALL_FINISHED = enum.auto()
    """In the dumps all collectives have ended."""


@dataclass(slots=True, kw_only=True)
class Finding:
    """One thing that was found: ``ranks`` are those that it is about.

    ``standing`` is the collective that most ranks wait in, ``circle`` those that wait for each other, each for the
    next. ``behind`` are others that wait for the same ranks, or for ranks that wait here.
    ``followers`` are ranks behind these in no collective, ``after`` those that have died later.
    """

    topic: Topic
    certainty: Certainty | None = None
    ranks: tuple[int, ...] = ()
    standing: PendingCollective | None = None
    circle: tuple[PendingCollective, ...] = ()
    behind: list[PendingCollective] = field(default_factory=list)
    followers: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def pending(self) -> PendingCollective:
        """Return the collective of a finding that is about one."""
        if self.standing is None:
            raise ValueError(self.topic)
        return self.standing


class Purpose(enum.Enum):
    """What the next step is for."""

    OPENS = "opens the debugger in which it stands"
    BREAKS_IN = "breaks in, and opens the debugger there"
    STACKS = "shows the stacks"
    END = "shows how it ended, and where it was last seen"
    TELLS_HANG = "tells whether it hangs"


class NextStep(NamedTuple):
    """The command to type now, and what it is for."""

    remedy: Remedy
    purpose: Purpose

    @property
    def command(self) -> str:
        """Return the command for a shell."""
        return self.remedy.typed().strip("`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One thing that is wrong with the ranks of one job, or that nothing is.

    ``others`` are ranks that wait for those that it is about; ``cause`` is what is wrong with the first of these by
    themselves. ``group``, ``collective`` and ``sequence`` are what it is about, if it is about such. ``age`` is in
    seconds. ``is_settled`` says that another look would change nothing. ``finding`` in its ``scene`` is what sentence
    and evidence are made of, ``notes`` are further ones for the evidence, and ``lines`` what files have told besides.
    """

    kind: VerdictKind
    job: str
    finding: Finding = field(default_factory=lambda: Finding(topic=Topic.NOBODY), compare=False)
    scene: Scene | None = field(default=None, compare=False, repr=False)
    certainty: Certainty | None = None
    ranks: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    cause: VerdictKind | None = None
    group: str | None = None
    collective: str | None = None
    sequence: int | None = None
    age: float | None = None
    is_settled: bool = True
    next: NextStep | None = None
    notes: tuple[Finding, ...] = field(default=(), compare=False)
    lines: tuple[str, ...] = ()


def worst_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts by badness; of one kind the one with most ranks waiting first."""
    return sorted(verdicts, key=_order)


def exit_status(verdicts: Sequence[Verdict]) -> int:
    """Return 0 if all ranks are busy or have ended, 1 if a verdict names a culprit, 6 if it can't be told."""
    kinds = {verdict.kind for verdict in verdicts}
    if kinds - HARMLESS:
        return CULPRIT_STATUS
    return UNKNOWN_STATUS if VerdictKind.UNKNOWN in kinds or not kinds else BUSY_STATUS


def _order(verdict: Verdict) -> tuple[object, ...]:
    waiting = -len(verdict.others), -len(verdict.ranks)
    where = verdict.group or "", verdict.collective or "", verdict.finding.topic.value
    return _BADNESS[verdict.kind], *waiting, -(verdict.age or 0.0), verdict.job, verdict.ranks, where
