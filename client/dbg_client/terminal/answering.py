"""Carry out a session's verbs over the session's own connection."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dbg_client.command_line.session_line import read_scope
from dbg_client.core.asking import Asker
from dbg_client.core.choose import Choice, choose, find
from dbg_client.core.patience import Show, WaitingLine, read_in_thread, show_nobody
from dbg_client.core.remembered_groups import read_target, remember
from dbg_client.core.switchboard import Switchboard
from dbg_client.core.waiting import break_in
from dbg_client.shell.streams import terminal_size
from dbg_client.verbs.list import ListRanks
from dbg_client.verbs.orders import Interrupt, is_moving
from dbg_client.verbs.verb import Asking, RanksVerb, Style, Verb
from dbg_client.views.naming import name_few
from dbg_command.targets import Target
from dbg_wire.errors import printable
from dbg_wire.messages import RankAnswer
from dbg_wire.records.ranks import RankInfo


@dataclass(frozen=True, slots=True)
class Answered:
    """What is shown for a command, or the rank to attach to instead."""

    text: str = ""
    choice: Choice | None = None


class NeedsYes(Exception):
    """Say that a command needs the user's yes; never shown as an error."""

    def __init__(self, question: str) -> None:
        super().__init__(question)
        self.question = question


class Answering:
    """Answer commands of one session, one at a time; ``show_waiting`` takes what an answer waits for."""

    def __init__(self, switchboard: Switchboard) -> None:
        self._switchboard = switchboard
        self._directory = switchboard.directory
        self._asker = Asker(switchboard, None, terminal_size, WaitingLine(self._show))
        self.show_waiting: Show = show_nobody

    def _show(self, line: str | None) -> None:
        self.show_waiting(line)

    async def answer(self, verb: Verb, rank: RankInfo, *, color: bool) -> Answered:
        """Carry out a verb from a session at ``rank``. Raises DbgError and NeedsYes."""
        self._asker.seconds = verb.broker.timeout
        target = await self._target(verb, rank)
        if not isinstance(verb, RanksVerb):
            return Answered(choice=choose(target, self._directory.ranks) if target is not None else Choice(rank))
        ranks, note = self._meant(verb, target, rank)
        if isinstance(verb, Interrupt) and len(ranks) == 1 and is_moving(ranks[0]):
            return await self.break_in(ranks[0], verb.broker.timeout)
        asks, those = verb.consent(ranks)
        if those and not verb.yes:
            raise NeedsYes(f"{asks} {name_few(those, self._directory.ranks)}?")
        asking = Asking(
            asker=self._asker,
            ranks=ranks,
            known=self._directory.ranks,
            target=target,
            show=self._show,
            url=self._switchboard.url,
            welcome=self._switchboard.welcome,
        )
        answer = await verb.ask(asking)
        problem = await asyncio.to_thread(remember, os.environ, answer.groups, verb.target)
        lines = [
            printable(note) if note else "",
            self._away(verb),
            answer.text(Style(color=color)),
            answer.hint,
            problem,
        ]
        return Answered("".join(f"{line.rstrip()}\n" for line in lines if line))

    async def break_in(self, rank: RankInfo, seconds: float | None = None) -> Answered:
        """Break into a rank; return it as the one to attach to once it has stopped, or why it does not stop.

        The rank has ``seconds`` to answer, by default the switchboard's. A break-in that is cancelled is withdrawn.
        Raises DbgError.
        """
        seconds = self._switchboard.seconds if seconds is None else seconds
        found = await break_in(self._switchboard, self._asker, rank, seconds=seconds)
        if isinstance(found, RankAnswer):
            return Answered(f"{printable(rank.address)}: {printable(found.text)}\n")
        return Answered(choice=Choice(found, is_broken_into=True))

    def _meant(self, verb: RanksVerb, target: Target | None, rank: RankInfo) -> tuple[Sequence[RankInfo], str | None]:
        known = self._directory.ranks
        if target is None:
            return [rank] if verb.is_about_this_rank else known, None
        if verb.takes_one:
            choice = choose(target, known)
            return [choice.rank], choice.note
        found = find(target, known, any_job=verb.any_job)
        return found.ranks, found.note

    async def _target(self, verb: Verb, rank: RankInfo) -> Target | None:
        """Return which ranks the verb means; None for the session's own rank, and for a list of all."""
        text: str | None = getattr(verb, "target", None)
        if text is None and isinstance(verb, RanksVerb) and not verb.is_about_this_rank:
            text = verb.usual
        if text is None:
            return None
        target = await read_in_thread(partial(read_target, text, os.environ), verb.broker.timeout)
        return read_scope(target, rank.job)

    def _away(self, verb: Verb) -> str:
        away = self._directory.away
        is_old = isinstance(verb, ListRanks) and away is not None
        return f"The broker is gone ({printable(away or '')}); its list was at last:\n\n" if is_old else ""
