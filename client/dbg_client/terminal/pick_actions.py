"""What the picker asks ranks, from its letters."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from dbg_client.actions.in_session import Answered, Answering
from dbg_client.words.command_line import parse
from dbg_client.words.settings import RankSettings
from dbg_client.words.settle import settle
from dbg_wire.errors import DbgError
from dbg_wire.ranks import RankInfo

PROMPTS: Mapping[str, str] = {"e": "expression", "c": "pdb command"}
"""The letters that need a text, and how it is asked for."""

_WORDS: Mapping[str, Callable[[str], Sequence[str]]] = {
    "w": lambda text: ("where",),
    "e": lambda text: ("eval", "--", text),
    "c": lambda text: ("command", "all", "--", text),
    "i": lambda text: ("interrupt",),
}


class PickActions:
    """Ask ranks for the picker, one question at a time."""

    def __init__(self, answering: Answering, *, color: bool) -> None:
        self._answering = answering
        self._color = color

    async def answer(self, letter: str, text: str, ranks: Sequence[RankInfo]) -> str:
        """Return the page that answers a letter; what is wrong with the question is a page, too."""
        try:
            settings = _settings(_WORDS[letter](text))
            return await self._answering.answer_for(settings.with_color(self._color), ranks)
        except DbgError as error:
            return f"{error}\n"

    async def stop(self, rank: RankInfo) -> Answered:
        """Break into a rank; return it once it has stopped, or as a page why it does not."""
        try:
            return await self._answering.break_in(rank, _settings(_WORDS["i"]("")).broker.timeout)
        except DbgError as error:
            return Answered(f"{error}\n")


def _settings(words: Sequence[str]) -> RankSettings:
    settings = settle(parse(words), os.environ, stdout_is_tty=True)
    if not isinstance(settings, RankSettings):
        raise TypeError(f"{settings.name} asks no ranks")
    return settings
