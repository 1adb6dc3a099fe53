"""Look at the ranks of a run's job now and then, and say why once none of them moves any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace

from dbg_client.actions.many import ask_many
from dbg_client.actions.why import show_why
from dbg_client.core.asking import Asker
from dbg_client.core.choose import ranks_of
from dbg_client.core.switchboard import switchboard_to
from dbg_client.hang.verdict import BUSY_STATUS, UNKNOWN_STATUS
from dbg_client.run.standstill import Standstill
from dbg_client.streams import tell
from dbg_client.views.waits import show_age
from dbg_client.words.settings import CommandSettings, Format, Verb
from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import Action, Look
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState

LOOKS = 3
"""Looks within the time after which a job counts as hanging."""

SHORTEST_SECONDS = 1.0
"""Seconds between two looks at least: a look makes each rank read its flight recorder, which takes milliseconds."""

LONGEST_SECONDS = 60.0
"""Seconds between two looks at most, so that a hang is told soon after it counts as one."""


class HangWatch:
    """Watch one job over a link of its own, beside sessions that its user may have.

    What is found is appended to the job's output, which the terminal of the run shows and the home keeps.
    """

    def __init__(self, settings: CommandSettings, job: str, output: str, seconds: float) -> None:
        self._switchboard = switchboard_to(settings.broker, settings.timeout)
        self._directory = self._switchboard.directory
        self._asker = Asker(self._switchboard)
        self._job, self._output, self._seconds = job, output, seconds
        self._settings = settings
        self._standstill = Standstill(seconds)

    async def go(self) -> None:
        """Watch until this is cancelled. A broker that can't be reached is told, and ends it."""
        try:
            await self._switchboard.dial()
            while True:
                await self._let_time_pass()
                with contextlib.suppress(DbgError):
                    # An answer that does not come says nothing of the ranks; the next look may have one.
                    await self._look()
        except DbgError as error:
            tell(f"dbg-attach: {error}; hangs are not told")
        finally:
            await self._switchboard.close()

    async def _let_time_pass(self) -> None:
        await asyncio.sleep(min(max(self._seconds / LOOKS, SHORTEST_SECONDS), LONGEST_SECONDS))

    async def _look(self) -> None:
        ranks = self._living
        if not ranks or any(rank.state in (RankState.STOPPED, RankState.HELD) for rank in ranks):
            self._standstill.begin_anew()
            return
        answers = await self._asker.ask(Action.WHERE, ranks, look=Look.COLLECTIVES)
        if any(answer.text in (RankState.STOPPED.value, RankState.HELD.value) for answer in answers):
            self._standstill.begin_anew()
        elif self._standstill.look(answers, asyncio.get_running_loop().time()):
            why = await self._why(ranks)
            if why:
                await asyncio.to_thread(self._write, why)
            else:
                self._standstill.begin_anew()

    @property
    def _living(self) -> list[RankInfo]:
        if not self._switchboard.is_current:
            return []
        return [rank for rank in ranks_of(self._job, self._directory.ranks) if rank.state in LIVE_STATES]

    async def _why(self, ranks: Sequence[RankInfo]) -> str:
        """Return why these ranks don't move, as text for people; empty if one moves after all."""
        known = self._directory.ranks
        asked = replace(self._settings, verb=Verb.WHY, format=Format.TABLE, target=None, color=False)
        why = await show_why(asked, self._asker, ranks, known, stands=True)
        if why.status == BUSY_STATUS:
            return ""
        if why.status != UNKNOWN_STATUS:
            return why.text
        # What can't be told at once may be seen from the stacks, which are no longer there in the morning.
        where = await ask_many(replace(asked, verb=Verb.WHERE), self._asker, ranks, None, known=known)
        return why.text + where.text

    def _write(self, why: str) -> None:
        text = f"dbg-broker: no rank of {printable(self._job)} has moved for {show_age(self._seconds)}\n{why}"
        try:
            append(self._output, text)
        except OSError:
            tell(text.rstrip("\n"))


def append(path: str, text: str) -> None:
    """Append whole lines to a file that a job writes to, below a line that it has begun. Blocks. Raises OSError."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        is_within_line = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        lines = f"\n{text}" if is_within_line else text
        os.write(file, lines.encode("utf-8", "replace"))
    finally:
        os.close(file)
