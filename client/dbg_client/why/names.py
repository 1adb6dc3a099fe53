"""Text for ranks, sizes and next commands in sentences of ``why`` and ``slow``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized

from dbg_client.core.choose import Run
from dbg_client.views.naming import clip
from dbg_client.why.process_groups import Roster
from dbg_client.why.verdict import NextStep, Purpose
from dbg_command.targets import JOB_NAME
from dbg_wire.errors import Remedy, printable
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import RankInfo, RankState

MAX_NAMES = 24
"""Maximum columns for the ranks of one sentence. JSON lists them all."""

MAX_WORD = 60
"""Maximum characters of a name from a rank."""

MANY = 8
"""Minimum number of ranks for a sentence to state how many they are, as in `12 ranks`."""

SHUTDOWN = "_shutdown"
"""Function of threading that waits for the threads of an ended program. A rank can't be interrupted there."""


class NamedRanks:
    """Names of the ranks of one run. With ``several_jobs``, a command also names the job."""

    def __init__(self, run: Run, roster: Roster, *, several_jobs: bool) -> None:
        self._job = run[0]
        self._roster = roster
        self._several_jobs = several_jobs

    def ranks(self, numbers: Iterable[int]) -> str:
        """Return ``rank 11``, ``ranks 0-3,5``, or for many ranks ``12 ranks (0-11)`` or ``all 8 ranks``."""
        several = sorted(set(numbers))
        if len(several) < MANY:
            return f"rank{'s' if len(several) != 1 else ''} {format_ranks(several)}"
        if several == sorted(self._roster):
            return f"all {len(several)} ranks"
        return f"{len(several)} ranks ({clip(format_ranks(several), MAX_NAMES)})"

    def described(self, numbers: Sequence[int]) -> str:
        """Return the ranks. The place of a single rank follows in brackets: ``rank 11 (dp 2, tp 3, gpu013)``."""
        one = self._roster.get(numbers[0]) if len(set(numbers)) == 1 else None
        where = self._place(one.rank) if one is not None else ""
        return f"{self.ranks(numbers)} ({where})" if where else self.ranks(numbers)

    def _place(self, rank: RankInfo) -> str:
        axes = [f"{printable(one.axis, MAX_WORD)} {one.index}" for one in rank.coordinates]
        return ", ".join([*axes, printable(rank.host, MAX_WORD)])

    def _target(self, numbers: Iterable[int]) -> str | None:
        """Return the target of a command for these ranks; None if one of them can't be named."""
        several = set(numbers)
        if not several or not all(number in self._roster for number in several):
            return None
        if not self._several_jobs:
            return format_ranks(several)
        return f"{self._job}/{format_ranks(several)}" if JOB_NAME.fullmatch(self._job) else None

    def entering(self, numbers: Sequence[int]) -> NextStep | None:
        """Return the next command for the first rank, usually to open its debugger; None if the rank can't be named."""
        target = self._target(numbers[:1])
        if target is None:
            return None
        one = self._roster[numbers[0]]
        state = one.rank.state
        if state in (RankState.EXITED, RankState.LOST):
            return NextStep(Remedy("where", target, ("--all",)), Purpose.END)
        if state is RankState.STOPPED:
            return NextStep(Remedy("attach", target), Purpose.OPENS)
        if state is RankState.UNRESPONSIVE or one.is_suspended:
            return NextStep(Remedy("where", target), Purpose.STACKS)
        if one.answer.frames and one.answer.frames[0].function == SHUTDOWN:
            return self.looking(numbers[:1], threads=True)
        return NextStep(Remedy("interrupt", target), Purpose.BREAKS_IN)

    def looking(self, numbers: Iterable[int], *, threads: bool = False) -> NextStep | None:
        """Return the command that shows the stacks of these ranks; None if a rank can't be named."""
        target = self._target(numbers)
        options = ("--threads",) if threads else ()
        return NextStep(Remedy("where", target, options), Purpose.STACKS) if target is not None else None


def agreeing(those: Sized, one: str, several: str) -> str:
    """Return the singular or the plural form, by the number of items."""
    return one if len(those) == 1 else several


def show_bytes(count: int) -> str:
    """Return a number of bytes as ``40 B`` or ``1.2 GiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{_short(size)} {unit}"
        size /= 1024
    return f"{_short(size)} TiB"


def _short(size: float) -> str:
    return f"{size:.1f}".removesuffix(".0") if size < 10 else f"{size:.0f}"
