"""The ranks of one run in the words of a sentence, and as targets of the next command. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dbg_client.core.rank_evidence import Roster
from dbg_client.core.roll_call import Run
from dbg_client.views.naming import clip
from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.grammar import JOB_NAME
from dbg_wire.targets.rank_set import format_ranks

MAX_NAMES = 40
"""Columns for the ranks of one sentence; JSON has them all."""

MAX_WORD = 60
"""Characters of a name that a rank has told."""


class NamedRanks:
    """Name the ranks of one run; where ``several_jobs`` are asked, a command names the job, too."""

    def __init__(self, run: Run, roster: Roster, *, several_jobs: bool) -> None:
        self._job = run[0]
        self._roster = roster
        self._several_jobs = several_jobs
        self._hosts = {one.rank.host for one in roster.values()}

    def ranks(self, numbers: Iterable[int]) -> str:
        """Return ``rank 11`` or ``ranks 0-3,5``."""
        several = sorted(set(numbers))
        return f"rank{'s' if len(several) != 1 else ''} {clip(format_ranks(several), MAX_NAMES)}"

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

    def entering(self, numbers: Sequence[int]) -> tuple[str | None, str]:
        """Return the command that opens the debugger of the first of these ranks, and what it does."""
        number = numbers[0]
        one, target = self._roster.get(number), self.target([number])
        if one is None or target is None:
            return None, ""
        state = one.rank.state
        if state in (RankState.EXITED, RankState.LOST):
            return f"dbg-attach {target} -w --all", "shows its last stack"
        if state is RankState.STOPPED:
            return f"dbg-attach {target}", "opens the debugger in which it stands"
        if state is RankState.UNRESPONSIVE:
            return f"dbg-attach {target} -w", "shows its stack"
        return f"dbg-attach {target} -i", "breaks in, and opens the debugger there"

    def looking(self, numbers: Sequence[int], *, threads: bool = False) -> tuple[str | None, str]:
        """Return the command that shows the stacks of these ranks, and what it does."""
        target = self.target(numbers)
        if target is None:
            return None, ""
        return f"dbg-attach {target} -w{' --threads' if threads else ''}", "shows their stacks"
