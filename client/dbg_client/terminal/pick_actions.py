"""What the picker asks ranks, from its letters."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import Kind
from dbg_wire.ranks import RankInfo, RankState

from ..actions.in_session import Answering
from ..core.choose import is_ready
from ..core.directory import Directory
from ..errors import LostRank, RankEnded, RankVanished
from ..words.arguments import Arguments
from ..words.settings import settle

PROMPTS: Mapping[str, str] = {"e": "expression", "c": "pdb command"}
"""The letters that need a text, and how it is asked for."""

_ARGUMENTS: Mapping[str, Callable[[str], Arguments]] = {
    "w": lambda text: Arguments(where=True),
    "e": lambda text: Arguments(expression=text),
    "c": lambda text: Arguments(command=text),
    "i": lambda text: Arguments(interrupt=True),
}

_WITHDRAWAL_SECONDS = 2.0
"""Seconds to wait for the answer to a withdrawal: the user who gave up wants the list back."""


class PickActions:
    """Ask ranks for the picker, one question at a time; ``changed`` is set at each change of the directory."""

    def __init__(self, answering: Answering, directory: Directory, *, color: bool) -> None:
        self.changed = asyncio.Event()
        self._answering = answering
        self._directory = directory
        self._color = color

    async def answer(self, letter: str, text: str, ranks: Sequence[RankInfo]) -> str:
        """Return the page that answers a letter; what is wrong with the question is a page, too."""
        try:
            settings = settle(_ARGUMENTS[letter](text), os.environ, stdout_is_tty=True)
            return await self._answering.answer_for(replace(settings, color=self._color), ranks)
        except DbgError as error:
            return f"{error}\n"

    async def stop(self, rank: RankInfo) -> RankInfo | str:
        """Break into a rank, and return it once it has stopped; or why it does not, as a page.

        A break-in that is cancelled is withdrawn.
        """
        seconds = settle(Arguments(), os.environ, stdout_is_tty=True).timeout
        try:
            answer = await self._answering.break_in(rank, seconds)
            if answer.kind not in (Kind.VALUE, Kind.RUNNING):
                return f"{printable(rank.address)}: {printable(answer.text)}\n"
            return await self._stopped(rank)
        except DbgError as error:
            return f"{error}\n"
        except asyncio.CancelledError:
            await self._answering.break_in(rank, _WITHDRAWAL_SECONDS, withdrawn=True)
            raise

    async def _stopped(self, rank: RankInfo) -> RankInfo:
        while True:
            self.changed.clear()
            now = self._directory.by_key.get(rank.key)
            if now is None and self._directory.complete:
                raise RankVanished(rank.address)
            if now is not None and is_ready(now):
                return now
            if now is not None and now.state is RankState.EXITED:
                raise RankEnded(now)
            if now is not None and now.state is RankState.LOST:
                raise LostRank(now.address)
            await self.changed.wait()
