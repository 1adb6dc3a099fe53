"""Carry out a session's command line over the session's own connection."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dbg_wire.errors import printable
from dbg_wire.messages import Action, Kind
from dbg_wire.ranks import LIVE_STATES, RankInfo, RankState
from dbg_wire.targets import Target, select

from ..core.asking import Asker
from ..core.choose import choose, is_ready
from ..core.directory import Directory
from ..core.remembered_groups import read_target
from ..core.shared_link import SharedLink
from ..streams import terminal_size
from ..views.answers import show_answers, show_screen
from ..views.list import show_table
from ..views.naming import name_few
from ..words.commands import USUAL_TARGETS, read_scope
from ..words.settings import CommandSettings, Verb
from .many import ask_many, break_in, read_saved
from .stops import ask_stops


@dataclass(frozen=True, slots=True)
class Answered:
    """What is shown for a command, or the rank to attach to instead."""

    text: str = ""
    rank: RankInfo | None = None


class NeedsYes(Exception):
    """Say that a command needs the user's yes, with which it is given again; never shown as an error."""

    def __init__(self, question: str) -> None:
        super().__init__(question)
        self.question = question


class Answering:
    """Answer commands of one session, one at a time."""

    def __init__(self, link: SharedLink, directory: Directory) -> None:
        self._link = link
        self._directory = directory
        # The session keeps the real directory, and hears of a broken link itself. The asker writes to this one.
        self._asker = Asker(link, Directory(), 0, terminal_size)

    async def answer(self, settings: CommandSettings, rank: RankInfo) -> Answered:
        """Do what the command asks for, from a session at ``rank``. Raises DbgError and NeedsYes."""
        self._asker.seconds = settings.timeout
        self._link.begin()
        try:
            return await self._act(settings, rank)
        finally:
            self._link.end()

    async def _act(self, settings: CommandSettings, rank: RankInfo) -> Answered:
        ranks, note = self._found(settings, await self._target(settings, rank), rank)
        if settings.verb is Verb.ATTACH:
            return Answered(rank=ranks[0])
        text = self._list(settings, ranks) if settings.verb is Verb.LIST else await self._ask(settings, ranks)
        return Answered(f"{printable(note)}\n{text}" if note else text)

    def _found(
        self, settings: CommandSettings, target: Target | None, rank: RankInfo
    ) -> tuple[Sequence[RankInfo], str | None]:
        known = self._directory.ranks
        if target is None:
            return (known if settings.verb is Verb.LIST else [rank]), None
        if settings.verb in (Verb.ATTACH, Verb.SCREEN):
            choice = choose(target, known)
            return [choice.rank], choice.note
        found = select(target, known)
        return found.ranks, found.note

    async def _target(self, settings: CommandSettings, rank: RankInfo) -> Target | None:
        """Return which ranks the command means; None for the session's own rank, and for a list of all."""
        text = settings.target if settings.target is not None else USUAL_TARGETS.get(settings.verb)
        if text is None:
            return None
        return read_scope(await asyncio.to_thread(read_target, text, os.environ), rank.job)

    async def _ask(self, settings: CommandSettings, ranks: Sequence[RankInfo]) -> str:
        if settings.verb in (Verb.EVAL, Verb.COMMAND, Verb.WHERE):
            saved = await asyncio.to_thread(read_saved, settings.against)
            shown = await ask_many(settings, self._asker, ranks, saved)
            return f"{shown.text}{shown.hint.removeprefix('dbg-attach: ')}"
        if settings.verb is Verb.STOPS:
            return await ask_stops(self._asker, ranks)
        if settings.verb is Verb.INTERRUPT:
            return (await break_in(settings, self._asker, ranks)).text
        action, fits, nobody = _DEEDS[settings.verb]
        fitting = [rank for rank in ranks if fits(rank)]
        if not fitting:
            return (
                f"none of {name_few(ranks)} is {nobody}\n" if len(ranks) > 1 else f"{name_few(ranks)} is not {nobody}\n"
            )
        if settings.verb is Verb.KILL and not settings.yes:
            raise NeedsYes(f"End {name_few(fitting)}?")
        answers = await self._asker.ask(action, fitting)
        if settings.verb is Verb.SCREEN and answers[0].kind is Kind.VALUE:
            return show_screen(answers[0].rows or tuple(answers[0].text.split("\n")))
        return show_answers(answers, self._directory.by_key)

    def _list(self, settings: CommandSettings, ranks: Sequence[RankInfo]) -> str:
        listed = [rank for rank in ranks if settings.all or rank.state is not RankState.EXITED]
        away = self._directory.away
        news = "" if away is None else f"The broker is gone ({printable(away)}); its list was at last:\n\n"
        return news + (show_table(listed, time.time(), color=settings.color) or "No rank is left.\n")


def _is_held(rank: RankInfo) -> bool:
    return rank.state is RankState.HELD


def _is_live(rank: RankInfo) -> bool:
    return rank.state in LIVE_STATES


_DEEDS: Mapping[Verb, tuple[Action, Callable[[RankInfo], bool], str]] = {
    Verb.RELEASE: (Action.RELEASE, _is_held, "held, waiting for others"),
    Verb.CONTINUE: (Action.CONTINUE, is_ready, "stopped"),
    Verb.KILL: (Action.KILL, _is_live, "alive"),
    Verb.SCREEN: (Action.SCREEN, _is_live, "alive"),
}
"""For each verb: the action, the ranks that it makes sense for, and what the other ranks are not."""
