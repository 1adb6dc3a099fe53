"""Run a verb on ranks from a shell: wait, ask the user for confirmation, ask the ranks, print the answer."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from functools import partial

from dbg_client.core.asking import Asker
from dbg_client.core.choose import Choice, choose, exited, find, is_ready, listed, there
from dbg_client.core.errors import NeedsTarget, why_not_stopped
from dbg_client.core.remembered_groups import read_target, remember
from dbg_client.core.switchboard import Switchboard, open_and_list, switchboard_to
from dbg_client.core.wait_progress import Show, WaitingLine, read_in_thread
from dbg_client.core.waiting import break_in, wait_for_stop
from dbg_client.shell.output import cancel_on_ctrl_c, confirms, show_result, written
from dbg_client.shell.streams import columns_of_stdout, has_cursor, notify, show_waiting, terminal_size
from dbg_client.verbs.control import Interrupt, answered
from dbg_client.verbs.table import load_verb
from dbg_client.verbs.verb import Answer, Asking, Format, RanksVerb, Style, Verb
from dbg_client.views.naming import name_few
from dbg_command.targets import Target, parse_target, select, unique_target
from dbg_wire.errors import printable
from dbg_wire.messages import Mode, RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState


class AttachInstead(Exception):
    """Raised to end the command and continue with a session at the rank that it has interrupted; never shown."""

    def __init__(self, verb: Interrupt, target: str, mode: Mode) -> None:
        super().__init__(target)
        self._verb, self._target, self._mode = verb, target, mode

    def attach(self) -> int:
        """Attach to the rank, and return the exit status. Raises DbgError."""
        verb = self._verb
        attach: Verb = load_verb("attach")(
            broker=verb.broker,
            target=self._target,
            attach=verb.attach.replace(mode=self._mode),
            record=verb.record,
            color=verb.output.color,
        )
        return attach.run()


def select_ranks(verb: RanksVerb, target: Target, known: Sequence[RankInfo]) -> tuple[tuple[RankInfo, ...], str | None]:
    """Return the ranks that a target selects for a verb, and a note on the choice. Raises DbgError."""
    if verb.takes_one:
        choice = choose(target, known)
        return (choice.rank,), choice.note
    found = find(target, known, any_job=verb.any_job)
    return tuple(found.ranks), found.note


async def ask_and_remember(
    verb: RanksVerb, asker: Asker, ranks: Sequence[RankInfo], target: Target | None, show: Show
) -> tuple[Answer, str]:
    """Ask ranks, and save the groups for later targets; return the answer, and the reason if saving failed."""
    switchboard = asker.switchboard
    asking = Asking(
        asker=asker,
        ranks=ranks,
        known=switchboard.directory.ranks,
        target=target,
        show=show,
        url=switchboard.url,
        welcome=switchboard.welcome,
    )
    answer = await verb.ask(asking)
    return answer, await asyncio.to_thread(remember, os.environ, answer.groups, verb.target)


async def ask_ranks(verb: RanksVerb) -> int:
    """Ask ranks, print their answer, and return the exit status. Raises DbgError and AttachInstead."""
    text = _target_text(verb)
    target = None
    if text is not None:
        target = await read_in_thread(partial(read_target, text, os.environ), verb.broker.timeout)
    switchboard = switchboard_to(verb.broker.address, verb.broker.timeout)
    try:
        return await _Command(verb, switchboard, target).run()
    finally:
        await switchboard.close()


def _target_text(verb: RanksVerb) -> str | None:
    """Return the text of the target, or None for all ranks. Raises NeedsTarget."""
    if verb.target is not None:
        return verb.target
    if not verb.without_target:
        if verb.deadline is None:
            raise NeedsTarget(verb.name, verb.example)
        return "stopped"
    return None if verb.usual in (None, "all") else verb.usual


class _Command:
    """One verb over one connection. ``target`` is None for all ranks."""

    def __init__(self, verb: RanksVerb, switchboard: Switchboard, target: Target | None) -> None:
        self._verb = verb
        self._switchboard = switchboard
        self._target = target
        self._line = WaitingLine(show_waiting)
        self._asker = Asker(switchboard, verb.broker.timeout, terminal_size, self._line)

    @property
    def _known(self) -> Sequence[RankInfo]:
        return self._switchboard.directory.ranks

    async def run(self) -> int:
        verb = self._verb
        await open_and_list(self._switchboard, self._line, notify)
        if verb.deadline is not None:
            target = self._target or parse_target("stopped")
            await wait_for_stop(self._switchboard, target, verb.deadline, notify=notify, line=self._line)
        ranks = self._select()
        if not verb.yes and not await self._is_agreed(ranks):
            return 1
        if isinstance(verb, Interrupt) and len(ranks) == 1 and verb.output.format is Format.TABLE and _on_terminal():
            return await self._attach_to(verb, ranks[0])
        work = ask_and_remember(verb, self._asker, ranks, self._target, show_waiting)
        given = await (cancel_on_ctrl_c(work) if verb.is_stoppable else work)
        if given is None:
            # Ctrl-C has cancelled the verb. The broker makes the ranks end their work when this terminal disconnects.
            raise KeyboardInterrupt
        answer, problem = given
        if problem:
            notify(f"dbg-attach: {problem}")
        return await self._print(answer)

    def _select(self) -> Sequence[RankInfo]:
        """Return the ranks to ask."""
        verb, target, known = self._verb, self._target, self._known
        if target is None:
            left = there(known)
            if verb.with_exited and left:
                return left + exited(known, None)
            if verb.any_job:
                return left
            # If no job is live, select the one that has ended most recently, because its stacks stay readable.
            return left or list(select(parse_target("all"), known).ranks)
        ranks, note = select_ranks(verb, target, known)
        if note:
            notify(printable(note))
        return listed(known, target, ranks, with_exited=True) if verb.with_exited else ranks

    async def _is_agreed(self, ranks: Sequence[RankInfo]) -> bool:
        asks, those = self._verb.consent(ranks)
        if not those:
            return True
        names, deed = name_few(those, self._known), asks.lower()
        without_terminal = f"{self._verb.name} would {deed} {names}, but there is no terminal to confirm it"
        return await confirms(f"{asks} {names}?", without_terminal)

    async def _attach_to(self, verb: Interrupt, rank: RankInfo) -> int:
        """Break into one rank and continue as a session there. Raises AttachInstead."""
        mode = verb.attach.mode
        if not is_ready(rank):
            if rank.state in (RankState.HELD, RankState.LOST, RankState.EXITED):
                raise why_not_stopped(rank, verb.target or rank.address)
            found = await self._broken_into(rank)
            if isinstance(found, RankAnswer):
                return await self._print(answered(verb.name, [(rank, found)], [rank]))
            rank, mode = found, Choice(found, is_broken_into=True).mode(mode)
        raise AttachInstead(verb, unique_target(rank, self._known), mode)

    async def _broken_into(self, rank: RankInfo) -> RankInfo | RankAnswer:
        address = printable(rank.address)

        def waits(answer: RankAnswer) -> None:
            notify(f"{address} is {printable(answer.text)}; Ctrl-C gives up.")

        def withdrawn(answer: RankAnswer) -> None:
            notify(f"Given up: {address} {printable(answer.text)}.")

        async with self._line.says(lambda: f"waiting for {address} to stop"):
            work = break_in(self._switchboard, self._asker, rank, waits=waits, withdrawn=withdrawn)
            found = await cancel_on_ctrl_c(work)
        if found is None:
            raise KeyboardInterrupt
        return found

    async def _print(self, answer: Answer) -> int:
        output = self._verb.output
        style = Style(color=output.color, columns=columns_of_stdout())
        is_table = output.format is Format.TABLE
        await show_result(written(answer, output.format, style), output.pager if is_table else "")
        if answer.hint and output.format is not Format.JSON:
            notify(f"dbg-attach: {answer.hint}")
        return answer.status


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and has_cursor(os.environ)
