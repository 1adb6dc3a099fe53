"""The actions that don't attach: list ranks, print a screen, let ranks go on, end them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Sequence

from dbg_wire.errors import NeedsAnswer, NoSuchRank, printable
from dbg_wire.messages import Action, Answers, Kind, Question, RankAnswer, Refusal
from dbg_wire.ranks import LIVE_STATES, RankInfo, RankState
from dbg_wire.targets import Selection, Target, parse_target, select

from .attach import user_name
from .choose import choose, is_ready
from .directory import Directory
from .errors import Declined, NeedsTarget, NotStopped, TimedOut, why_not_stopped
from .line import Down, Line
from .reach import find_reach
from .say import data, talk
from .settings import Format, Settings, Verb
from .views.answers import show_answers, show_answers_json, show_screen, show_screen_json
from .views.list import show_json, show_plain, show_table
from .waiting import list_ranks, wait_for_stop

GRACE_SECONDS = 5.0
"""Seconds beyond the deadline of a question after which the broker itself counts as silent."""

PARTIAL = 6
"""Exit status when some ranks did not answer."""

PAGE = 2000
"""Ranks in one question: their keys stay below MAX_ITEMS and, at 500 bytes each, MAX_CONTROL_BYTES."""


async def run_action(settings: Settings) -> int:
    """Do what the settings ask for and return the exit status. Raises DbgError."""
    target = parse_target(settings.target) if settings.target is not None else None
    if target is None and settings.verb is not Verb.LIST:
        raise NeedsTarget(settings.verb.value)
    line = Line(lambda: find_reach(settings.broker, os.environ), user_name(), settings.timeout)
    await line.open()
    try:
        return await _Acting(settings, line).run(target)
    finally:
        await line.close()


class _Acting:
    """Do one action over one line."""

    def __init__(self, settings: Settings, line: Line) -> None:
        self._settings = settings
        self._line = line
        self._directory = Directory()

    async def run(self, target: Target | None) -> int:
        await list_ranks(self._line, self._directory, self._settings.timeout)
        if self._settings.wait is not None:
            await wait_for_stop(self._line, self._directory, target or parse_target("stopped"), self._settings.wait)
        if target is None or self._settings.verb is Verb.LIST:
            return self._list(target)
        if self._settings.verb is Verb.SCREEN:
            return await self._screen(target)
        if self._settings.verb is Verb.CONTINUE:
            return await self._continue(target)
        return await self._kill(target)

    def _list(self, target: Target | None) -> int:
        known = self._directory.ranks
        shown = self._listed(target)
        if self._settings.format is Format.JSON:
            data(show_json(shown))
        elif self._settings.format is Format.PLAIN:
            data(show_plain(shown, known))
        else:
            data(show_table(shown, time.time(), color=self._settings.color))
            if not shown:
                talk(_empty(known, self._line.url))
        return 0

    def _listed(self, target: Target | None) -> list[RankInfo]:
        known = self._directory.ranks
        exited = [rank for rank in known if rank.state is RankState.EXITED]
        if target is None:
            there = [rank for rank in known if rank.state is not RankState.EXITED]
            shown = list(select(parse_target("all"), there, any_job=True).ranks) if there else []
            return shown + exited if self._settings.all else shown
        found = self._select(target).ranks
        shown = [rank for rank in found if rank.state is not RankState.EXITED or self._settings.all]
        if self._settings.all and exited:
            # Where anything else fits, exited ranks hide; asked for by name they come behind it.
            with contextlib.suppress(NoSuchRank):
                more = select(target, exited, any_job=True).ranks
                shown += [rank for rank in more if rank not in shown]
        return shown

    def _select(self, target: Target) -> Selection:
        found = select(target, self._directory.ranks, any_job=self._settings.verb is Verb.LIST)
        if found.note:
            talk(printable(found.note))
        return found

    async def _screen(self, target: Target) -> int:
        chosen = choose(target, self._directory.ranks)
        if chosen.note:
            talk(printable(chosen.note))
        rank = chosen.rank
        (answer,) = await self._ask(Action.SCREEN, [rank])
        if answer.kind is Kind.VALUE:
            json = self._settings.format is Format.JSON
            rows = answer.rows or tuple(answer.text.split("\n"))  # a screen has rows, a line debugger's output is text
            data(show_screen_json(rank, rows) if json else show_screen(rows))
            return 0
        talk(f"dbg-attach: {show_answers([answer], self._directory.by_key).strip()}")
        return 1 if answer.kind in (Kind.ERROR, Kind.RUNNING) else PARTIAL

    async def _continue(self, target: Target) -> int:
        found = self._select(target).ranks
        stopped = [rank for rank in found if is_ready(rank)]
        if not stopped:
            if len(found) == 1:
                raise why_not_stopped(found[0], target.text)
            raise NotStopped(f"none of the {len(found)} ranks that fit {target.text} is stopped", target.text)
        return self._report(await self._ask(Action.CONTINUE, stopped))

    async def _kill(self, target: Target) -> int:
        found = self._select(target).ranks
        living = [rank for rank in found if rank.state in LIVE_STATES]
        if not living:
            raise why_not_stopped(found[0], target.text)
        if not self._settings.yes and not await _agrees(living):
            talk("Nothing was done.")
            return 1
        return self._report(await self._ask(Action.KILL, living))

    def _report(self, answers: Sequence[RankAnswer]) -> int:
        ranks = self._directory.by_key
        if self._settings.format is Format.JSON:
            data(show_answers_json(self._settings.verb.value.lstrip("-"), answers, ranks))
        else:
            data(show_answers(answers, ranks))
        kinds = {answer.kind for answer in answers}
        return 0 if kinds == {Kind.VALUE} else PARTIAL if kinds - {Kind.VALUE, Kind.ERROR} else 1

    async def _ask(self, action: Action, ranks: Sequence[RankInfo]) -> list[RankAnswer]:
        columns, rows = shutil.get_terminal_size()
        pages = range(0, len(ranks), PAGE)
        for start in pages:
            question = Question(
                request=start,
                keys=tuple(rank.key for rank in ranks[start : start + PAGE]),
                action=action,
                seconds=self._settings.timeout,
                rows=rows,
                columns=columns,
            )
            self._line.send(question)
        try:
            return await asyncio.wait_for(self._answers(set(pages)), self._settings.timeout + GRACE_SECONDS)
        except asyncio.TimeoutError:
            raise TimedOut(f"the broker did not answer within {self._settings.timeout + GRACE_SECONDS:g} s") from None

    async def _answers(self, open_requests: set[int]) -> list[RankAnswer]:
        answers: list[RankAnswer] = []
        while open_requests:
            event = await self._line.next()
            if isinstance(event, Down):
                raise TimedOut(f"the broker went away before it answered ({printable(event.reason)})")
            if isinstance(event, Refusal):
                raise Declined(event.text)
            if isinstance(event, Answers) and event.request in open_requests:
                answers += event.answers
                if event.last:
                    open_requests.remove(event.request)
        return answers


async def _agrees(ranks: Sequence[RankInfo]) -> bool:
    named = ", ".join(printable(rank.address) for rank in ranks[:4]) + (", …" if len(ranks) > 4 else "")
    what = f"{len(ranks)} ranks ({named})" if len(ranks) > 1 else named
    if not sys.stdin.isatty():
        raise NeedsAnswer(f"--kill would end {what}, and there is no terminal to ask", "add -y to do it unasked")
    sys.stderr.write(f"End {what}? [y/N] ")
    sys.stderr.flush()
    return (await _read_line()).strip().lower() in ("y", "yes")


async def _read_line() -> str:
    # Not in a thread: Ctrl-C could not get it out of there.
    loop = asyncio.get_running_loop()
    read: asyncio.Future[bytes] = loop.create_future()
    stdin = sys.stdin.fileno()

    def take() -> None:
        if not read.done():
            read.set_result(os.read(stdin, 4096))

    loop.add_reader(stdin, take)
    try:
        return (await read).decode("utf-8", "replace")
    finally:
        loop.remove_reader(stdin)


def _empty(known: Sequence[RankInfo], url: str) -> str:
    if known:
        return "No rank is left; --all lists the exited ones."
    return f"No rank has connected to {printable(url)} yet; a script does so at its first set_trace()."
