"""The socket of one page: all news, and what it asks by a line as in a session, with the answer as ``--json``."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dbg_client.api.answers import Answer, Collectives, Slow, Where, Why
from dbg_client.core.asking import Asker
from dbg_client.core.choose import find
from dbg_client.core.errors import bug
from dbg_client.core.patience import WaitingLine
from dbg_client.core.remembered_groups import with_groups
from dbg_client.core.switchboard import Switchboard
from dbg_client.faces.web import messages
from dbg_client.faces.web.messages import Ask, Confirm, Failed, Lines, Progress, Source, Withdraw, read_from_page
from dbg_client.faces.web.verdicts import told_of
from dbg_client.questions.cause import find_case
from dbg_client.questions.inspection import file_in_ranks, read_source
from dbg_client.questions.verbs import (
    CONTINUE,
    INTERRUPT,
    KILL,
    RELEASE,
    Order,
    Questions,
    list_ranks,
    value_question,
)
from dbg_client.views.groups import remembered
from dbg_client.views.list import list_document
from dbg_client.views.missing import missing_documents
from dbg_client.views.naming import name_few
from dbg_client.views.stacks import MISSING, missing_from_collectives
from dbg_client.words import settings as verbs
from dbg_client.words.other_faces import ONLY_IN_A_TERMINAL, in_words_of
from dbg_client.words.session_line import USUAL_TARGETS, parse_command
from dbg_client.words.settings import RankSettings
from dbg_dial.kernel import user_name
from dbg_wire.errors import BadInput, DbgError, PeerError
from dbg_wire.records.ranks import RankInfo
from dbg_wire.targets.selection import parse_target

if TYPE_CHECKING:
    from dbg_client.faces.web.feed import Feed
    from dbg_client.faces.web.outbox import Outbox

MAX_AT_ONCE = 16
"""Questions of one page that are open at the same time; the link asks as many at once of all pages together."""

CHANGING = (verbs.Eval, verbs.PdbCommand, verbs.Interrupt, verbs.Continue, verbs.Release, verbs.Kill)
"""Verbs by which a program may move, end or compute: not for a page that only looks."""

ORDERS: Mapping[type[RankSettings], Order] = {
    verbs.Interrupt: INTERRUPT,
    verbs.Continue: CONTINUE,
    verbs.Release: RELEASE,
    verbs.Kill: KILL,
}


COMMANDS = {
    "list": "the grid",
    "wait": "the time line",
    "interrupt": "`interrupt {ranks}`",
    "release": "`release {ranks}`",
    "attach": "the terminal of {ranks}",
    **ONLY_IN_A_TERMINAL,
}
"""What a page has where an error names a command of the terminal."""


class NeedsYes(Exception):
    """Say what the user has to agree to; never shown as an error."""


class Told(NamedTuple):
    """An answer: its document, what a terminal shows of it, and the keys of its groups' ranks."""

    document: object
    text: str
    members: Mapping[str, Sequence[str]]


class Asks:
    """The open questions of one page, and the groups of its last answer; ends with the page.

    ``why_not`` says why the page may change nothing, and is empty if it may.
    """

    def __init__(self, switchboard: Switchboard, feed: Feed, outbox: Outbox, why_not: Callable[[], str]) -> None:
        self._switchboard, self._feed, self._outbox, self._why_not = switchboard, feed, outbox, why_not
        self._groups: Mapping[str, frozenset[str]] = {}
        self._open: dict[int, asyncio.Task[None]] = {}

    def ask(self, item: Ask) -> None:
        """Begin to ask."""
        self._begin(item.id, lambda: self._answer(item))

    def show_source(self, item: Source) -> None:
        """Begin to read source."""
        self._begin(item.id, lambda: self._source(item))

    def withdraw(self, number: int) -> None:
        """Give a question up."""
        task = self._open.pop(number, None)
        if task is not None:
            task.cancel()
            self._outbox.say(Failed(id=number, sentence="given up"))

    async def close(self) -> None:
        """Give all questions up."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, number: int, work: Callable[[], Awaitable[None]]) -> None:
        if number in self._open or len(self._open) >= MAX_AT_ONCE:
            why = "its number is in use" if number in self._open else f"{MAX_AT_ONCE} questions are open; end one first"
            self._outbox.say(Failed(id=number, sentence=f"this was not asked: {why}"))
            return
        task = self._open[number] = asyncio.create_task(self._try(number, work))
        task.add_done_callback(lambda done: self._open.pop(number, None) if self._open.get(number) is done else None)

    async def _try(self, number: int, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except NeedsYes as needs:
            self._outbox.say(Confirm(id=number, question=str(needs)))
        except DbgError as error:
            self._outbox.say(Failed(id=number, sentence=in_words_of(error, COMMANDS)))
        except Exception as error:
            self._outbox.say(Failed(id=number, sentence=bug(error)))

    # --------------------------------------------------------------------------------------------------- questions

    async def _answer(self, item: Ask) -> None:
        settings = self._settings(item)
        changes = isinstance(settings, CHANGING) or (isinstance(settings, verbs.Where) and settings.native)
        if changes and (why_not := self._why_not()):
            raise BadInput(f"`{settings.name}` may change the program", why_not)
        if item.every is not None and isinstance(settings, tuple(ORDERS)):
            raise BadInput(f"`{settings.name}` is not for again and again", "ask it once")
        number, is_last = 0, item.every is None
        while True:
            ranks = self._ranks(item, settings)
            if changes and not number:
                self._require_yes(settings, ranks, item)
                self._feed.note("asked", item.line, ranks, user_name())
            told = await self._ask(settings, ranks, item.id)
            self._groups = {name: frozenset(keys) for name, keys in told.members.items()}
            answer = messages.Answer(
                id=item.id,
                verb=settings.name,
                number=number,
                at=time.time(),
                document=msgspec.Raw(msgspec.json.encode(told.document)),
                text=told.text,
                members={name: tuple(keys) for name, keys in told.members.items()},
                last=is_last,
            )
            self._outbox.say(answer)
            if item.every is None:
                return
            number += 1
            await asyncio.sleep(item.every)

    def _settings(self, item: Ask) -> RankSettings:
        settings = parse_command(item.line, os.environ, has_ranks=bool(item.keys or item.ranks))
        if isinstance(settings, verbs.Eval) and (settings.save or settings.against):
            raise BadInput("--save and --against name files of this server's host", "use them in a terminal")
        if isinstance(settings, (verbs.Attach, verbs.Screen)):
            raise BadInput("a page attaches in a terminal of its own", "open the terminal of one rank")
        if settings is None or isinstance(settings, (verbs.Exec, verbs.Stops)):
            what = "help" if settings is None else settings.name
            raise BadInput(f"`{what}` is not for a page", "use it in a terminal")
        return settings

    def _ranks(self, item: Ask, settings: RankSettings) -> Sequence[RankInfo]:
        """Return the ranks that are meant, of those that this server shows."""
        known = self._feed.rows.ranks
        if settings.target is None and item.keys:
            wanted = set(item.keys)
            chosen = [rank for rank in known if rank.key in wanted]
            if not chosen:
                raise BadInput("none of the chosen ranks is there any more", "choose others")
            return chosen
        text = settings.target or item.ranks or USUAL_TARGETS.get(settings.name, "")
        if isinstance(settings, verbs.ListRanks) and not text:
            return known
        if not text:
            raise BadInput(f"`{settings.name}` needs ranks", "choose some, or name them, e.g. `0-7`")
        return find(with_groups(parse_target(text), self._groups), known).ranks

    def _require_yes(self, settings: RankSettings, ranks: Sequence[RankInfo], item: Ask) -> None:
        order = ORDERS.get(type(settings))
        those = order.those(ranks) if order is not None else []
        if order is None or not order.asks or item.yes or not those:
            return
        if order is KILL or len(those) > 1:
            raise NeedsYes(f"{order.asks} {name_few(those)}?")

    async def _ask(self, settings: RankSettings, ranks: Sequence[RankInfo], number: int) -> Told:
        line = WaitingLine(lambda text: self._outbox.say(Progress(id=number, text=text)) if text else None)
        asker = Asker(self._switchboard, settings.broker.timeout, line=line)
        questions = Questions(self._switchboard, asker)
        if isinstance(settings, verbs.Asked):
            return await self._values(questions, settings, ranks)
        if isinstance(settings, verbs.Where):
            stacks = await questions.stacks(ranks, threads=settings.threads, native=settings.native)
            return Told(Where(stacks).document, stacks.shown(), remembered(stacks.groups))
        if isinstance(settings, verbs.Why):
            known = self._switchboard.directory.ranks
            case, found = await find_case(asker, ranks, known)
            for verdict in told_of(case, found, known, time.time()):
                self._feed.judge(verdict)
            why = Why(found)
            return Told(why.document, str(why), {MISSING: [rank.key for rank in found.missing]})
        if isinstance(settings, verbs.Slow):
            slow = Slow(await questions.stragglers(ranks, settings.seconds))
            return Told(slow.document, str(slow), {})
        if isinstance(settings, verbs.Collectives):
            matched = await questions.collectives(ranks)
            collectives, absent = Collectives(matched), missing_from_collectives(matched)
            keys = [rank.key for rank in absent.ranks] if absent is not None else []
            return Told(collectives.document, str(collectives), {MISSING: keys})
        if isinstance(settings, verbs.ListRanks):
            listed = list_ranks(ranks, None, (), with_exited=settings.all)
            return Told(
                list_document(listed.shown, missing_documents(listed.absent)), listed.table(color=False, fold=True), {}
            )
        return await self._order(questions, ORDERS[type(settings)], ranks)

    async def _values(self, questions: Questions, settings: verbs.Asked, ranks: Sequence[RankInfo]) -> Told:
        action, wishes = value_question(settings, ranks)
        values = await questions.values(ranks, action, settings.question, wishes)
        answer = Answer(values)
        return Told(answer.document, str(answer), remembered(values.groups))

    async def _order(self, questions: Questions, order: Order, ranks: Sequence[RankInfo]) -> Told:
        # A rank that is stopped already says so.
        those = ranks if order is INTERRUPT else order.those(ranks)
        if not order.those(ranks):
            who = f"none of {name_few(ranks)} is" if len(ranks) > 1 else f"{name_few(ranks)} is not"
            raise BadInput(f"{who} {order.fitting}", "choose others")
        values = await questions.order(order, those)
        answer = Answer(values)
        return Told(answer.document, str(answer), remembered(values.groups))

    # ------------------------------------------------------------------------------------------------------ source

    async def _source(self, item: Source) -> None:
        rank = self._switchboard.directory.by_key.get(item.key)
        if rank is None:
            raise BadInput("this rank is not there any more", "choose another one")
        asker = Asker(self._switchboard)
        where = rank.where
        path = await file_in_ranks(asker, [rank], item.file or (where.file if where is not None else ""))
        line = item.line or (where.line if where is not None else 1)
        first = max(1, line - item.around)
        source = await read_source(asker, rank, path, begin=first, count=line + item.around + 1 - first)
        self._outbox.say(
            Lines(id=item.id, file=source.path, first=source.begin, total=source.total, lines=source.lines)
        )


class LivePage:
    """One page; its questions end with it."""

    def __init__(self, feed: Feed, asks: Asks, outbox: Outbox) -> None:
        self._feed, self._asks, self._outbox = feed, asks, outbox
        feed.join(outbox)

    async def receive(self, frame: str | bytes) -> None:
        """Take what the page asks. Raises PeerError."""
        if isinstance(frame, bytes):
            raise PeerError("bytes of a page that takes texts")
        item = read_from_page(frame)
        if isinstance(item, Ask):
            self._asks.ask(item)
        elif isinstance(item, Source):
            self._asks.show_source(item)
        elif isinstance(item, Withdraw):
            self._asks.withdraw(item.id)

    async def leave(self) -> None:
        """Give up what is open."""
        self._feed.leave(self._outbox)
        await self._asks.close()
