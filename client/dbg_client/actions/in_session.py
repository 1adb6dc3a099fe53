"""Carry out a session's command line over the session's own connection."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dbg_client.actions.ask import QUESTIONS, ask, show_list
from dbg_client.actions.many import break_in
from dbg_client.actions.streams import terminal_size
from dbg_client.core.asking import Asker
from dbg_client.core.choose import Choice, choose, find
from dbg_client.core.patience import Show, WaitingLine, read_in_thread, show_nobody
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.roll_call import RollCall, call_roll
from dbg_client.core.switchboard import Switchboard
from dbg_client.core.waiting import until_stopped
from dbg_client.questions.verbs import INTERRUPT, ORDERS, Order, give_order, reached_by
from dbg_client.views.answers import lines_in, show_answers, show_screen
from dbg_client.views.naming import name_few
from dbg_client.words.session_line import USUAL_TARGETS, read_scope
from dbg_client.words.settings import Attach, Interrupt, Kill, ListRanks, RankSettings, Screen
from dbg_wire.errors import printable
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.ranks import RankInfo
from dbg_wire.targets.selection import Target

_WITHDRAWAL_SECONDS = 2.0
"""Seconds to wait for the answer to a withdrawal: the user who gave up wants the list or the session back."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What is shown for a command, or the rank to attach to instead."""

    text: str = ""
    choice: Choice | None = None


class NeedsYes(Exception):
    """Say that a command needs the user's yes, and what to answer then; never shown as an error."""

    def __init__(self, question: str, agreed: RankSettings) -> None:
        super().__init__(question)
        self.question = question
        self.agreed = agreed


class Answering:
    """Answer commands of one session, one at a time; ``show_waiting`` takes what an answer waits for."""

    def __init__(self, switchboard: Switchboard) -> None:
        self._switchboard = switchboard
        self._directory = switchboard.directory
        self._asker = Asker(switchboard, None, terminal_size, WaitingLine(self._show))
        self.show_waiting: Show = show_nobody

    def _show(self, line: str | None) -> None:
        self.show_waiting(line)

    async def answer(self, settings: Attach | RankSettings, rank: RankInfo) -> Answered:
        """Do what the command asks for, from a session at ``rank``. Raises DbgError and NeedsYes."""
        self._asker.seconds = settings.broker.timeout
        target = await self._target(settings, rank)
        ranks, note = self._found(settings, target, rank)
        if isinstance(settings, Attach):
            return Answered(choice=Choice(ranks[0]))
        if isinstance(settings, Interrupt) and len(ranks) == 1 and INTERRUPT.fits(ranks[0]):
            return await self.break_in(ranks[0], settings.broker.timeout)
        if isinstance(settings, ListRanks):
            text = self._list(settings, target, ranks)
        else:
            calls = call_roll(self._directory.ranks, target, {rank.key for rank in ranks})
            text = await self._ask(settings, ranks, calls)
        return Answered(f"{printable(note)}\n{text}" if note else text)

    async def break_in(self, rank: RankInfo, seconds: float | None = None) -> Answered:
        """Break into a rank; return it as the one to attach to once it has stopped, or why it does not stop.

        The rank has ``seconds`` to answer, by default the switchboard's. A break-in that is cancelled is withdrawn.
        Raises DbgError.
        """
        seconds = self._switchboard.seconds if seconds is None else seconds
        try:
            answer = await self._interrupt(rank, seconds)
            if answer.kind not in (Kind.VALUE, Kind.RUNNING):
                return Answered(f"{printable(rank.address)}: {printable(answer.text)}\n")
            return Answered(choice=Choice(await until_stopped(self._switchboard, rank), is_broken_into=True))
        except asyncio.CancelledError:
            await self._interrupt(rank, _WITHDRAWAL_SECONDS, withdrawn=True)
            raise

    async def _interrupt(self, rank: RankInfo, seconds: float, *, withdrawn: bool = False) -> RankAnswer:
        self._asker.seconds = seconds
        return (await self._asker.ask(Action.INTERRUPT, [rank], withdrawn=withdrawn))[0]

    def _found(
        self, settings: Attach | RankSettings, target: Target | None, rank: RankInfo
    ) -> tuple[Sequence[RankInfo], str | None]:
        known = self._directory.ranks
        if target is None:
            return (known if isinstance(settings, ListRanks) else [rank]), None
        if isinstance(settings, (Attach, Screen)):
            choice = choose(target, known)
            return [choice.rank], choice.note
        found = find(target, known)
        return found.ranks, found.note

    async def _target(self, settings: Attach | RankSettings, rank: RankInfo) -> Target | None:
        """Return which ranks the command means; None for the session's own rank, and for a list of all."""
        text = settings.target if settings.target is not None else USUAL_TARGETS.get(settings.name)
        if text is None:
            return None
        target = await read_in_thread(partial(read_target, text, os.environ), settings.broker.timeout)
        return read_scope(target, rank.job)

    async def _ask(self, settings: RankSettings, ranks: Sequence[RankInfo], calls: Sequence[RollCall]) -> str:
        if isinstance(settings, QUESTIONS):
            known = self._directory.ranks
            shown = await ask(settings, self._asker, ranks, known, calls=calls, show=self._show)
            return f"{shown.text}{shown.hint.removeprefix('dbg-attach: ')}"
        if isinstance(settings, Interrupt):
            moving = INTERRUPT.those(ranks)
            if len(moving) > 1 and not settings.yes:
                raise self._needs_yes(INTERRUPT, moving, settings)
            return (await break_in(settings, self._asker, ranks)).text
        order = ORDERS[type(settings)]
        fitting = reached_by(order, ranks)
        if not fitting:
            names = name_few(ranks, self._directory.ranks)
            who = f"none of {names} is" if len(ranks) > 1 else f"{names} is not"
            return f"{who} {order.fitting}\n"
        if isinstance(settings, Kill) and not settings.yes:
            raise self._needs_yes(order, fitting, settings)
        answers = [answer for _, answer in await give_order(self._asker, order, ranks)]
        if isinstance(settings, Screen) and answers[0].kind is Kind.VALUE:
            return show_screen(lines_in(answers[0]))
        return show_answers(answers, self._directory.by_key)

    def _needs_yes(self, order: Order, ranks: Sequence[RankInfo], settings: Interrupt | Kill) -> NeedsYes:
        return NeedsYes(f"{order.asks} {name_few(ranks, self._directory.ranks)}?", settings.replace(yes=True))

    def _list(self, settings: ListRanks, target: Target | None, ranks: Sequence[RankInfo]) -> str:
        away = self._directory.away
        news = "" if away is None else f"The broker is gone ({printable(away)}); its list was at last:\n\n"
        return news + show_list(settings, self._directory.ranks, target, ranks, nobody="No rank is left.\n").text
