"""Facts of a verdict on a job that may hang: its topic, its ranks and its certainty. Pure.

The module contains no sentences: ``sentences`` and ``show`` write them for the width of the reader's terminal.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dbg_client.why.collective_matching import PendingCollective
from dbg_wire.errors import Remedy

if TYPE_CHECKING:
    from dbg_client.why.wait_analysis import WaitAnalysis

PATIENT_SECONDS = 60.0
"""Seconds that ranks must have waited in a collective before a working rank is reported as missing from it."""

BUSY_STATUS, CULPRIT_STATUS, UNKNOWN_STATUS = 0, 1, 6
"""Exit statuses of ``why``."""


class VerdictKind(str, enum.Enum):
    """Kind of a problem, the worst first. Verdicts of an answer have this order."""

    MISSING = "missing"
    """A rank has not reached a collective that others wait in."""
    ORDER = "order"
    """Ranks are in different collectives although they should be in the same one."""
    MISMATCH = "mismatch"
    """Ranks are in one collective with different shapes, types or sizes."""
    PARTNER = "partner"
    """A receive has no matching send, or a send has no matching receive."""
    DEAD = "dead"
    ABSENT = "absent"
    """A rank has never connected."""
    SUSPENDED = "suspended"
    DEADLOCK = "deadlock"
    """Threads of a rank wait for each other, or a missing rank waits for a resource of a rank in the collective."""
    STUCK = "stuck"
    """A rank is in C code that does not return."""
    WAITING = "waiting"
    """A rank waits for data, a file, a socket, another process, a lock, or a person."""
    ENDED = "ended"
    """A rank has ended its program, with status 0."""
    UNKNOWN = "unknown"
    """It is unknown whether or why the job hangs."""
    BUSY = "busy"
    """The ranks make progress; nothing is wrong."""


HARMLESS = frozenset({VerdictKind.ENDED, VerdictKind.UNKNOWN, VerdictKind.BUSY})
"""Kinds without a culprit."""

IN_COLLECTIVES = frozenset({VerdictKind.MISSING, VerdictKind.ORDER, VerdictKind.MISMATCH, VerdictKind.PARTNER})
"""Kinds about a pending collective."""

_BADNESS = {kind: number for number, kind in enumerate(VerdictKind)}


class Certainty(str, enum.Enum):
    """Certainty of a verdict. The sentence of a verdict that is not SURE contains the word `likely`."""

    SURE = "sure"
    """A library has recorded the problem, or the kernel, the interpreter or the broker reports it."""
    LIKELY = "likely"
    """The problem is inferred from stacks."""


def certainty_of(all_pending: Sequence[PendingCollective]) -> Certainty:
    """Return how certain it is which ranks have called these collectives."""
    return Certainty.SURE if all(one.is_recorded for one in all_pending) else Certainty.LIKELY


class Topic(enum.Enum):
    """Topic of a finding. MISSING to COMPLETE are root causes: sinks and cycles of the wait-for graph."""

    MISSING = enum.auto()
    """Ranks have not reached a collective."""
    NO_PARTNER = enum.auto()
    """A rank has not called the other half of a send or receive."""
    CYCLE = enum.auto()
    """Ranks wait for each other in collectives."""
    HELD = enum.auto()
    """Ranks wait for a resource, such as a file lock, of a rank that waits for them in a collective."""
    CONFLICT = enum.auto()
    """Ranks make different calls where one collective is expected, or pass different data to it."""
    LONELY = enum.auto()
    """Only one rank has created the group."""
    PEERLESS = enum.auto()
    """A send or receive with an unknown peer."""
    DOUBTFUL = enum.auto()
    """Silent ranks may be missing."""
    COMPLETE = enum.auto()
    """All ranks wait, and none is missing."""
    OWN = enum.auto()
    """Ranks have a problem of their own."""
    ABSENT = enum.auto()
    """Ranks have never connected."""
    SILENT = enum.auto()
    """Ranks are alive and did not answer."""
    UNMOVED = enum.auto()
    """Ranks have made no progress, and the reason is unknown."""
    GOES_ON = enum.auto()
    """A collective whose ranks exchange data."""
    BUSY = enum.auto()
    """Ranks make progress."""
    NOBODY = enum.auto()
    """No rank has an agent."""
    NO_DUMP = enum.auto()
    """Ranks have left no dump of the flight recorder."""
    ALL_FINISHED = enum.auto()
    """All collectives in the dumps are finished."""


@dataclass(slots=True, kw_only=True)
class Finding:
    """One finding about ``ranks``.

    ``pending`` is the collective with most waiting ranks. ``cycle`` lists collectives that wait for each other, each
    for the next one. ``behind`` lists other collectives that wait for ``ranks``, or for ranks that wait in ``pending``.
    ``followers`` are ranks that wait for ``ranks`` outside of collectives; ``after`` are ranks that died later.
    """

    topic: Topic
    certainty: Certainty | None = None
    ranks: tuple[int, ...] = ()
    collective: PendingCollective | None = None
    cycle: tuple[PendingCollective, ...] = ()
    behind: list[PendingCollective] = field(default_factory=list)
    followers: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def pending(self) -> PendingCollective:
        """Collective of the finding. Raises ValueError if the finding is not about a collective."""
        if self.collective is None:
            raise ValueError(self.topic)
        return self.collective


class Purpose(enum.Enum):
    """Purpose of the next command."""

    OPENS = "opens its debugger"
    BREAKS_IN = "interrupts the rank and opens the debugger"
    STACKS = "shows the stacks"
    END = "shows how it ended, and where it was last seen"
    TELLS_HANG = "shows whether it hangs"


class NextStep(NamedTuple):
    """Next command for the user, and its purpose."""

    remedy: Remedy
    purpose: Purpose

    @property
    def command(self) -> str:
        """Command for a shell."""
        return self.remedy.typed().strip("`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One problem with ``ranks`` of one job, or the result that nothing is wrong.

    ``others`` are ranks that wait for ``ranks``; ``cause`` is the problem that the first of ``ranks`` has by itself.
    ``group``, ``collective`` and ``sequence`` are set only for a verdict about a collective. ``age`` is in seconds.
    ``is_settled`` means that another snapshot would change nothing. Sentence and evidence are made from ``finding`` in
    its ``analysis``. ``notes`` are additional findings for the evidence, and ``lines`` are additional lines from files.
    """

    kind: VerdictKind
    job: str
    finding: Finding = field(default_factory=lambda: Finding(topic=Topic.NOBODY), compare=False)
    analysis: WaitAnalysis | None = field(default=None, compare=False, repr=False)
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
    """Return the verdicts, the worst kind first, and within a kind the one with most waiting ranks."""
    return sorted(verdicts, key=_order)


def exit_status(verdicts: Sequence[Verdict]) -> int:
    """Return 0 if all ranks are busy or have ended, 1 if a verdict names a culprit, 6 if the cause is unknown."""
    kinds = {verdict.kind for verdict in verdicts}
    if kinds - HARMLESS:
        return CULPRIT_STATUS
    return UNKNOWN_STATUS if VerdictKind.UNKNOWN in kinds or not kinds else BUSY_STATUS


def _order(verdict: Verdict) -> tuple[object, ...]:
    waiting = -len(verdict.others), -len(verdict.ranks)
    where = verdict.group or "", verdict.collective or "", verdict.finding.topic.value
    return _BADNESS[verdict.kind], *waiting, -(verdict.age or 0.0), verdict.job, verdict.ranks, where
