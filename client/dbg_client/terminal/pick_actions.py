"""What the picker asks ranks, from its letters."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dbg_client.actions.in_session import Answered, Answering
from dbg_client.words.arguments import Arguments
from dbg_client.words.settings import settle
from dbg_wire.errors import DbgError
from dbg_wire.records.ranks import RankInfo

PROMPTS: Mapping[str, str] = {"e": "expression", "c": "pdb command"}
"""The letters that need a text, and how it is asked for."""

_ARGUMENTS: Mapping[str, Callable[[str], Arguments]] = {
    "w": lambda text: Arguments(where=True),
    "e": lambda text: Arguments(expression=text),
    "c": lambda text: Arguments(command=text),
    "i": lambda text: Arguments(interrupt=True),
}


class PickActions:
    """Ask ranks for the picker, one question at a time."""

    def __init__(self, answering: Answering, *, color: bool) -> None:
        self._answering = answering
        self._color = color

    async def answer(self, letter: str, text: str, ranks: Sequence[RankInfo]) -> str:
        """Return the page that answers a letter; what is wrong with the question is a page, too."""
        try:
            settings = settle(_ARGUMENTS[letter](text), os.environ, stdout_is_tty=True)
            return await self._answering.answer_for(replace(settings, color=self._color), ranks)
        except DbgError as error:
            return f"{error}\n"

    async def stop(self, rank: RankInfo) -> Answered:
        """Break into a rank; return it once it has stopped, or as a page why it does not."""
        try:
            return await self._answering.break_in(rank, settle(Arguments(), os.environ, stdout_is_tty=True).timeout)
        except DbgError as error:
            return Answered(f"{error}\n")
