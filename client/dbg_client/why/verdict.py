"""A verdict on a job that may hang: its kinds, and ranks, sizes and ages in the words of its sentence. Pure."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import NamedTuple

from dbg_client.core.choose import Run
from dbg_client.views.ages import show_age
from dbg_client.views.naming import clip
from dbg_client.why.annotate import root_of, tag_of
from dbg_client.why.collective_matching import PendingCollective
from dbg_client.why.process_groups import ProcessGroup, Roster, world_size
from dbg_command.targets import JOB_NAME
from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import DIED, RankInfo, RankState

MAX_EVIDENCE = 12
"""Lines of evidence of one verdict: more ranks than that are told in groups."""

BUSY_STATUS, CULPRIT_STATUS, UNKNOWN_STATUS = 0, 1, 6
"""Exit statuses of ``why``."""

MAX_NAMES = 24
"""Columns for the ranks of one sentence; JSON has them all."""

MAX_WORD = 60
"""Characters of a name that a rank has told."""

SHUTDOWN = "_shutdown"
"""The function of threading in which a program that has ended waits for its threads; nobody breaks in there."""

MAX_TYPES = 60
"""Characters of the types of one collective."""


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
    """How a verdict is known; the words of its sentence follow: what is not known to be so `likely` is."""

    SURE = "sure"
    """A library has recorded it, or the kernel, the interpreter or the broker tells it."""
    LIKELY = "likely"
    """It is made from stacks."""


def certainty_of(standings: Sequence[PendingCollective]) -> Certainty:
    """Return how it is known who has called these collectives, and who has not."""
    return Certainty.SURE if all(one.is_recorded for one in standings) else Certainty.LIKELY


class NextStep(NamedTuple):
    """The command to type now, and what it does."""

    command: str
    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is told of the ``ranks`` of one job: a sentence, lines of evidence below it, and what to do next.

    ``group`` and ``collective`` are what it is about, if it is about such.
    """

    job: str
    sentence: str
    certainty: Certainty | None = None
    ranks: tuple[int, ...] = ()
    group: str | None = None
    collective: str | None = None
    evidence: tuple[str, ...] = ()
    next: NextStep | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Diagnosis):
    """One thing that is wrong with the ranks of one job, or that nothing is.

    ``others`` are ranks that wait for those that it is about; ``cause`` is what is wrong with the first of these by
    themselves. ``age`` is in seconds. ``is_settled`` says that another look would change nothing.
    """

    kind: VerdictKind
    others: tuple[int, ...] = ()
    cause: VerdictKind | None = None
    sequence: int | None = None
    age: float | None = None
    is_settled: bool = True


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
    return _BADNESS[verdict.kind], *waiting, -(verdict.age or 0.0), verdict.job, verdict.ranks, verdict.sentence


MANY = 8
"""Ranks from which on a sentence counts them, and names the group or host whose ranks they are."""


class NamedRanks:
    """Name the ranks of one run; where ``several_jobs`` are asked, a command names the job, too."""

    def __init__(self, run: Run, roster: Roster, groups: Iterable[ProcessGroup] = (), *, several_jobs: bool) -> None:
        self._job = run[0]
        self._roster = roster
        self._several_jobs = several_jobs
        self._wholes: dict[tuple[int, ...], str] = {}
        hosts: defaultdict[str, list[int]] = defaultdict(list)
        for number, one in roster.items():
            hosts[one.rank.host].append(number)
        if len(hosts) > 1:
            self._wholes.update((tuple(sorted(numbers)), host) for host, numbers in hosts.items())
        self._wholes.update((group.numbers, group.label) for group in groups if group.label)
        if world_size(roster) == len(roster):
            self._wholes.pop(tuple(sorted(roster)), None)

    def ranks(self, numbers: Iterable[int]) -> str:
        """Return ``rank 11``, ``ranks 0-3,5``, or of many ``12 ranks (0-11)`` or ``all 8 ranks of gpu013``."""
        several = sorted(set(numbers))
        if len(several) < MANY:
            return f"rank{'s' if len(several) != 1 else ''} {format_ranks(several)}"
        whole = self._wholes.get(tuple(several), "")
        named = f" ({clip(format_ranks(several), MAX_NAMES)})"
        if whole:
            return f"all {len(several)} ranks of {printable(whole, MAX_WORD)}"
        everybody = several == sorted(self._roster)
        return f"{'all ' * everybody}{len(several)} ranks{'' if everybody else named}"

    def described(self, numbers: Sequence[int]) -> str:
        """Return the ranks, and for a single one in brackets where it is: ``rank 11 (dp 2, tp 3, gpu013)``."""
        one = self._roster.get(numbers[0]) if len(set(numbers)) == 1 else None
        where = self._place(one.rank) if one is not None else ""
        return f"{self.ranks(numbers)} ({where})" if where else self.ranks(numbers)

    def target(self, numbers: Iterable[int]) -> str | None:
        """Return what a command is to name these ranks by; None if one of them can't be named."""
        several = set(numbers)
        if not several or not all(number in self._roster for number in several):
            return None
        if not self._several_jobs:
            return format_ranks(several)
        return f"{self._job}/{format_ranks(several)}" if JOB_NAME.fullmatch(self._job) else None

    def _place(self, rank: RankInfo) -> str:
        axes = [f"{printable(one.axis, MAX_WORD)} {one.index}" for one in rank.coordinates]
        return ", ".join([*axes, printable(rank.host, MAX_WORD)])

    def entering(self, numbers: Sequence[int]) -> NextStep | None:
        """Return the command that opens the debugger of the first of these ranks; None if it can't be named."""
        target = self.target(numbers[:1])
        if target is None:
            return None
        one = self._roster[numbers[0]]
        state = one.rank.state
        if state in (RankState.EXITED, RankState.LOST):
            stack = "where it was last seen" if one.rank.reason == DIED else "its last stack"
            shows = f"shows {stack if one.answer.frames else 'how it ended'}"
            return NextStep(f"dbg-attach where {target} --all", shows)
        if state is RankState.STOPPED:
            return NextStep(f"dbg-attach {target}", "opens the debugger in which it stands")
        if state is RankState.UNRESPONSIVE or one.is_suspended:
            return NextStep(f"dbg-attach where {target}", "shows its stack")
        if one.answer.frames and one.answer.frames[0].function == SHUTDOWN:
            return self.looking(numbers[:1], threads=True)
        return NextStep(f"dbg-attach interrupt {target}", "breaks in, and opens the debugger there")

    def looking(self, numbers: Iterable[int], *, threads: bool = False) -> NextStep | None:
        """Return the command that shows the stacks of these ranks; None if one of them can't be named."""
        target = self.target(numbers)
        command = f"dbg-attach where {target}{' --threads' if threads else ''}"
        return NextStep(command, "shows their stacks") if target is not None else None


def agreeing(those: Sized, one: str, several: str) -> str:
    """Return the word that goes with one of those, or with several."""
    return one if len(those) == 1 else several


def show_bytes(count: int) -> str:
    """Return a number of bytes as ``40 B``, ``1.2 GiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{_short(size)} {unit}"
        size /= 1024
    return f"{_short(size)} TiB"


def _short(size: float) -> str:
    return f"{size:.1f}".removesuffix(".0") if size < 10 else f"{size:.0f}"


def payload_of(standing: PendingCollective) -> str:
    """Return what the first waiting rank exchanges, as ``float32, 1.2 GiB``; empty if unknown."""
    call = standing.calls[min(standing.calls)]
    size = show_bytes(call.size) if call.size is not None else printable(call.shapes, MAX_TYPES)
    return ", ".join(piece for piece in (printable(call.types, MAX_TYPES), size) if piece)


def short_name(standing: PendingCollective) -> str:
    """Return the collective with its group: ``all_reduce #3172 of dp_0``; a tag, or the root of all, behind that."""
    arguments = tag_of(standing) or root_of(standing)
    return printable(standing.label, 120) + (f" ({arguments})" if arguments else "")


def since(age: float | None) -> str:
    """Return `` since 4 min 12 s``; empty if the age is unknown."""
    return f" since {show_age(age)}" if age is not None and age >= 1 else ""
