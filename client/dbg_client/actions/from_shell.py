"""The actions that don't attach: list ranks, print a screen, ask many, let ranks go on, end them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from dbg_client.actions.ask import ask, show_list
from dbg_client.actions.consent import agrees, unless_given_up
from dbg_client.actions.many import PARTIAL, ShownAnswers, break_in
from dbg_client.actions.output import in_format, show_result
from dbg_client.actions.streams import has_cursor, show_waiting, tell, terminal_size, write_result
from dbg_client.core.asking import Asker
from dbg_client.core.choose import Choice, choose, exited, find, is_ready, listed, there
from dbg_client.core.errors import NeedsTarget, NotHeld, NotStopped, why_not_stopped
from dbg_client.core.patience import WaitingLine, read_in_thread
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.roll_call import call_roll
from dbg_client.core.switchboard import Switchboard, switchboard_to
from dbg_client.core.waiting import open_and_list, until_stopped, wait_for_stop
from dbg_client.questions.verbs import CONTINUE, INTERRUPT, ORDERS, RELEASE, Order, give_order, reached_by
from dbg_client.views.answers import answers_document, lines_in, screen_document, show_answers, show_screen
from dbg_client.views.list import nobody_yet
from dbg_client.views.naming import name_few
from dbg_client.words.session_line import USUAL_TARGETS
from dbg_client.words.settings import (
    Attach,
    Collectives,
    Eval,
    Exec,
    Format,
    Interrupt,
    Kill,
    ListRanks,
    PdbCommand,
    RankSettings,
    Report,
    Screen,
    Slow,
    Where,
    Why,
)
from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import Action, Kind, Mode, RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.selection import Selection, Target, parse_target, select, unique_target

WITHDRAWAL_SECONDS = 2.0
"""Seconds to wait for the answer to a withdrawal, which is sent by then: a user who gave up does not wait long."""

_Shown: TypeAlias = "ListRanks | Where | Why | Slow | Collectives | Eval | PdbCommand"

_ABOUT_ALL = (ListRanks, Where, Why, Slow, Collectives, Report)
"""Verbs that mean all ranks where the user names none."""


async def run_action(settings: RankSettings, attach: Callable[[Attach], Awaitable[int]]) -> int:
    """Do what the settings ask for and return the exit status. Raises DbgError.

    ``attach`` holds the session at a rank that was broken into, and returns the exit status.
    """
    if settings.target is None and isinstance(settings, Eval):
        settings = settings.replace(target=USUAL_TARGETS[settings.name])
    if settings.target is None and not isinstance(settings, _ABOUT_ALL):
        raise NeedsTarget(settings.name)
    broker = settings.broker
    target = None
    if settings.target is not None:
        target = await read_in_thread(partial(read_target, settings.target, os.environ), broker.timeout)
    switchboard = switchboard_to(broker.address, broker.timeout)
    acting = _Acting(settings, switchboard)
    try:
        status = await acting.run(target)
    finally:
        await switchboard.close()
    return status if acting.attach_by is None else await attach(acting.attach_by)


class _Acting:
    """Do one action over one link; ``attach_by`` are the settings to attach by afterwards, if any."""

    def __init__(self, settings: RankSettings, switchboard: Switchboard) -> None:
        self.attach_by: Attach | None = None
        self._settings = settings
        self._switchboard = switchboard
        self._directory = switchboard.directory
        self._line = WaitingLine(show_waiting)
        self._asker = Asker(switchboard, settings.broker.timeout, terminal_size, self._line)
        self._told: str | None = None

    async def run(self, target: Target | None) -> int:
        settings = self._settings
        await open_and_list(self._switchboard, self._line, tell)
        if settings.wait is not None:
            waited_for = target or parse_target("stopped")
            await wait_for_stop(self._switchboard, waited_for, settings.wait, tell=tell, line=self._line)
        if isinstance(settings, Report):
            return await self._report_on(settings, target)
        if isinstance(settings, (ListRanks, Where, Why, Slow, Collectives, Eval, PdbCommand)):
            return await self._print(await self._show(settings, target))
        if target is None:
            raise NeedsTarget(settings.name)
        if isinstance(settings, Exec):
            return await self._exec(settings, target)
        if isinstance(settings, Interrupt):
            return await self._interrupt(settings, target)
        return await (self._screen(target) if isinstance(settings, Screen) else self._order(settings, target))

    # ------------------------------------------------------------------------------------------------- what is shown

    async def _show(self, settings: _Shown, target: Target | None) -> ShownAnswers:
        known = self._directory.ranks
        if isinstance(settings, ListRanks):
            return self._list(settings, target)
        with_exited = isinstance(settings, Where) and settings.all
        if target is None:
            ranks = self._everybody(with_exited=with_exited)
        else:
            ranks = list(self._select(target).ranks)
            if with_exited:
                ranks = listed(known, target, ranks, with_exited=True)
        calls = call_roll(known, target, {rank.key for rank in ranks})
        return await ask(settings, self._asker, ranks, known, calls=calls, show=show_waiting)

    def _everybody(self, *, with_exited: bool) -> list[RankInfo]:
        known = self._directory.ranks
        left = there(known)
        if with_exited and left:
            return left + exited(known, None)
        # Without a live job the user means the last one: the stacks of a job that has ended stay readable.
        return left or list(select(parse_target("all"), known).ranks)

    def _list(self, settings: ListRanks, target: Target | None) -> ShownAnswers:
        known = self._directory.ranks
        found = self._select(target).ranks if target is not None else ()
        hint = _empty(known, self._switchboard.url, "No rank" if target is None else "None of these ranks")
        return show_list(settings, known, target, found, hint=hint)

    def _select(self, target: Target) -> Selection:
        found = find(target, self._directory.ranks, any_job=isinstance(self._settings, ListRanks))
        if found.note and found.note != self._told:
            tell(printable(found.note))
        self._told = found.note
        return found

    async def _report_on(self, settings: Report, target: Target | None) -> int:
        # Of the words of a shell, this one alone needs all that explains a hang, and all that is shown.
        from dbg_client.actions.report import make_report, refuse_existing, write_report

        path, now = settings.path, time.time()
        if path is not None and not settings.yes:
            await asyncio.to_thread(refuse_existing, path)
        known = self._directory.ranks
        found = list(known)
        if target is not None:
            found = listed(known, target, self._select(target).ranks, with_exited=True)
        text = await make_report(settings.target, self._switchboard, self._asker, found, now)
        if path is None:
            return await self._print(ShownAnswers(text))
        await asyncio.to_thread(write_report, path, text, replace_it=settings.yes)
        tell(f"The report is in {printable(path)}; read it before you send it to others.")
        return 0

    # --------------------------------------------------------------------------------------------------- what is done

    async def _interrupt(self, settings: Interrupt, target: Target) -> int:
        found = self._select(target).ranks
        rank = found[0]
        moving = INTERRUPT.those(found)
        if len(moving) > 1 and not settings.yes:
            names = name_few(moving, self._directory.ranks)
            sentence = f"{settings.name} would stop {names}, and there is no terminal to ask"
            if not await agrees(f"{INTERRUPT.asks} {names}?", sentence):
                return 1
        if len(found) > 1 or settings.output.format is not Format.TABLE or not _on_terminal():
            return await self._print(await break_in(settings, self._asker, found))
        if is_ready(rank):
            return self._attach_to(settings, rank)
        if rank.state in (RankState.HELD, RankState.LOST, RankState.EXITED):
            raise why_not_stopped(rank, target.text)
        (answer,) = await self._asker.ask(Action.INTERRUPT, [rank])
        if answer.kind not in (Kind.VALUE, Kind.RUNNING):
            return self._report([answer])
        address = printable(rank.address)
        news = f"{address} is {printable(answer.text)}; Ctrl-C gives up." if answer.kind is Kind.RUNNING else ""
        async with self._line.says(lambda: f"waiting for {address} to stop"):
            stopped = await unless_given_up(self._until_stopped(rank, news))
        if stopped is None:
            await self._withdraw(rank)
            raise KeyboardInterrupt
        return self._attach_to(settings, stopped, Choice(stopped, is_broken_into=True).mode(settings.attach.mode))

    async def _withdraw(self, rank: RankInfo) -> None:
        """Withdraw the request to stop, and tell what came of it: the rank may have stopped meanwhile."""
        self._asker.seconds = min(self._asker.seconds, WITHDRAWAL_SECONDS)
        (answer,) = await self._asker.ask(Action.INTERRUPT, [rank], withdrawn=True)
        tell(f"Given up: {printable(rank.address)} {printable(answer.text)}.")

    def _attach_to(self, settings: Interrupt, rank: RankInfo, mode: Mode | None = None) -> int:
        target = unique_target(rank, self._directory.ranks)
        options = settings.attach.replace(mode=mode or settings.attach.mode)
        color = settings.output.color
        self.attach_by = Attach(broker=settings.broker, target=target, attach=options, color=color)
        return 0

    async def _until_stopped(self, rank: RankInfo, news: str) -> RankInfo:
        # It offers Ctrl-C, so it must not come before Ctrl-C is waited for.
        if news:
            tell(news)
        return await until_stopped(self._switchboard, rank)

    async def _exec(self, settings: Exec, target: Target) -> int:
        shown = await unless_given_up(ask(settings, self._asker, self._select(target).ranks, ()))
        if shown is None:
            # The broker ends the commands when this terminal has gone.
            raise KeyboardInterrupt
        return await self._print(shown)

    async def _order(self, settings: RankSettings, target: Target) -> int:
        order, found = ORDERS[type(settings)], self._select(target).ranks
        fitting = reached_by(order, found)
        if not fitting:
            raise self._why_none_fits(order, found, target)
        if isinstance(settings, Kill) and not settings.yes:
            names = name_few(fitting, self._directory.ranks)
            sentence = f"{settings.name} would end {names}, and there is no terminal to ask"
            if not await agrees(f"{order.asks} {names}?", sentence):
                return 1
        return self._report([answer for _, answer in await give_order(self._asker, order, found)])

    def _why_none_fits(self, order: Order, found: Sequence[RankInfo], target: Target) -> DbgError:
        if order is RELEASE:
            others = any(map(order.fits, self._directory.ranks))
            return NotHeld([rank.address for rank in found], others=others)
        if order is CONTINUE and len(found) > 1:
            return NotStopped(f"none of the {len(found)} ranks that fit {target.text} is stopped", target.text)
        return why_not_stopped(found[0], target.text)

    async def _screen(self, target: Target) -> int:
        chosen = choose(target, self._directory.ranks)
        if chosen.note:
            tell(printable(chosen.note))
        rank = chosen.rank
        (answer,) = await self._asker.ask(Action.SCREEN, [rank])
        if answer.kind is Kind.VALUE:
            rows, output = lines_in(answer), self._settings.output
            write_result(in_format(output, lambda: screen_document(rank, rows), lambda: show_screen(rows)))
            return 0
        tell(f"dbg-attach: {show_answers([answer], self._directory.by_key).strip()}")
        return 1 if answer.kind in (Kind.ERROR, Kind.RUNNING) else PARTIAL

    async def _print(self, shown: ShownAnswers) -> int:
        output = self._settings.output
        await show_result(shown.text, output.pager if output.format is Format.TABLE else "")
        if shown.hint:
            tell(shown.hint)
        return shown.status

    def _report(self, answers: Sequence[RankAnswer]) -> int:
        ranks, settings = self._directory.by_key, self._settings
        write_result(
            in_format(
                settings.output,
                lambda: answers_document(settings.name, answers, ranks),
                lambda: show_answers(answers, ranks),
            )
        )
        kinds = {answer.kind for answer in answers}
        return 0 if kinds == {Kind.VALUE} else PARTIAL if kinds - {Kind.VALUE, Kind.ERROR} else 1


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and has_cursor(os.environ)


def _empty(known: Sequence[RankInfo], url: str, who: str) -> str:
    if known:
        return f"{who} is left; --all lists the exited ones."
    return nobody_yet(url)
