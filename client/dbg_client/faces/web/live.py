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
from dbg_client.core.patience import WaitingLine
from dbg_client.core.remembered_groups import with_groups
from dbg_client.core.switchboard import Switchboard
from dbg_client.faces.requests import OpenRequests, sentence_of
from dbg_client.faces.web import messages
from dbg_client.faces.web.verdicts import told_of
from dbg_client.questions.answers import ValueAnswer
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
from dbg_client.words.other_faces import ONLY_IN_A_TERMINAL
from dbg_client.words.session_line import USUAL_TARGETS, parse_command
from dbg_client.words.settings import RankSettings
from dbg_client.words.verbs import VERBS
from dbg_dial.kernel import user_name
from dbg_wire.errors import BadInput, NoSuchRank, PeerError
from dbg_wire.records.ranks import RankInfo
from dbg_wire.targets.selection import parse_target, select

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

WORDS = {"help", *(row.name for row in VERBS)}
"""Words with which a line is no expression."""

USUAL = {**USUAL_TARGETS, "command": "stopped", "continue": "stopped", "interrupt": "running", "list": ""}
"""The ranks that a verb means in a page if none are chosen; a page has no rank of its own, as a session has."""

COMMANDS = {
    "list": "the grid",
    "wait": "the time line",
    "interrupt": "`interrupt {ranks}`",
    "release": "`release {ranks}`",
    "attach": "the terminal of {ranks}",
    **ONLY_IN_A_TERMINAL,
}
"""What a page has where an error names a command of the terminal."""


class Told(NamedTuple):
    """An answer: its document, what a terminal shows of it, and the keys of its groups' ranks."""

    document: object
    text: str
    members: Mapping[str, Sequence[str]] = {}


class LivePage:
    """One page: its open questions, which end with it, and the groups of its last answer.

    ``why_not`` says why the page may change nothing, and is empty if it may.
    """

    def __init__(self, switchboard: Switchboard, feed: Feed, outbox: Outbox, why_not: Callable[[], str]) -> None:
        self._switchboard, self._feed, self._outbox, self._why_not = switchboard, feed, outbox, why_not
        self._groups: Mapping[str, frozenset[str]] = {}
        self._requests = OpenRequests(MAX_AT_ONCE, "question")
        feed.join(outbox)

    async def receive(self, frame: str | bytes) -> None:
        """Take what the page asks. Raises PeerError."""
        if isinstance(frame, bytes):
            raise PeerError("bytes of a page that takes texts")
        item = messages.read(messages.LIVE, frame)
        if isinstance(item, messages.Ask):
            self._begin(item.id, lambda: self._answer(item))
        elif isinstance(item, messages.Find):
            self._begin(item.id, lambda: self._find(item))
        elif isinstance(item, messages.Source):
            self._begin(item.id, lambda: self._source(item))
        elif self._requests.give_up(item.id):
            self._outbox.say(messages.Failed(id=item.id, sentence="given up"))

    async def leave(self) -> None:
        """Give up what is open."""
        self._feed.leave(self._outbox)
        await self._requests.close()

    def _begin(self, number: int, work: Callable[[], Awaitable[None]]) -> None:
        if why_not := self._requests.begin(number, lambda: self._try(number, work)):
            self._outbox.say(messages.Failed(id=number, sentence=f"this was not asked: {why_not}"))

    async def _try(self, number: int, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            self._outbox.say(messages.Failed(id=number, sentence=sentence_of(error, COMMANDS)))

    # --------------------------------------------------------------------------------------------------- questions

    async def _answer(self, item: messages.Ask) -> None:
        line = item.line if item.line.partition(" ")[0] in WORDS else f"eval {item.line}"
        settings = _settings(line)
        changes = isinstance(settings, CHANGING) or (isinstance(settings, verbs.Where) and settings.native)
        if changes and (why_not := self._why_not()):
            raise BadInput(f"`{settings.name}` may change the program", why_not)
        if item.every is not None and type(settings) in ORDERS:
            raise BadInput(f"`{settings.name}` is not for again and again", "ask it once")
        is_first = True
        while True:
            ranks, whom = self._ranks(item, settings, changes=changes)
            if changes and is_first:
                if not item.yes and (question := _question(settings, ranks)):
                    self._outbox.say(messages.Confirm(id=item.id, question=question))
                    return
                self._feed.note("asked", line, ranks, user_name())
            told = await self._ask(settings, ranks, item.id)
            self._groups = {name: frozenset(keys) for name, keys in told.members.items()}
            answer = messages.Answer(
                id=item.id,
                at=time.time(),
                document=msgspec.Raw(msgspec.json.encode(told.document)),
                text=told.text,
                whom=whom,
                members={name: tuple(keys) for name, keys in told.members.items()},
                last=item.every is None,
            )
            self._outbox.say(answer)
            if item.every is None:
                return
            is_first = False
            await asyncio.sleep(item.every)

    def _ranks(self, item: messages.Ask, settings: RankSettings, *, changes: bool) -> tuple[Sequence[RankInfo], str]:
        """Return the ranks that are meant, of those that this server shows, and the target that names them."""
        known = self._feed.rows.ranks
        if settings.target is None and item.keys:
            wanted = set(item.keys)
            chosen = [rank for rank in known if rank.key in wanted]
            if not chosen:
                raise BadInput("none of the chosen ranks is there any more", "choose others")
            return chosen, ""
        named = settings.target or item.ranks
        text = named or USUAL.get(settings.name)
        if text is None:
            raise BadInput(f"`{settings.name}` needs ranks", "choose some, or name them, e.g. `0-7`")
        if not text:
            return known, ""
        target = with_groups(parse_target(text), self._groups)
        # A page that shows several jobs may look at all of them at once.
        ranks = (find(target, known) if named or changes else select(target, known, any_job=True)).ranks
        return ranks, "" if text == "all" else text

    async def _ask(self, settings: RankSettings, ranks: Sequence[RankInfo], number: int) -> Told:
        line = WaitingLine(lambda text: self._outbox.say(messages.Progress(id=number, text=text)) if text else None)
        asker = Asker(self._switchboard, settings.broker.timeout, line=line)
        questions = Questions(self._switchboard, asker)
        if isinstance(settings, verbs.Asked):
            action, wishes = value_question(settings, ranks)
            return _values(await questions.values(ranks, action, settings.question, wishes))
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
            return Told(slow.document, str(slow))
        if isinstance(settings, verbs.Collectives):
            matched = await questions.collectives(ranks)
            collectives, absent = Collectives(matched), missing_from_collectives(matched)
            keys = [rank.key for rank in absent.ranks] if absent is not None else []
            return Told(collectives.document, str(collectives), {MISSING: keys})
        if isinstance(settings, verbs.ListRanks):
            listed = list_ranks(ranks, None, (), with_exited=settings.all)
            document = list_document(listed.shown, missing_documents(listed.absent))
            return Told(document, listed.table(color=False, fold=True))
        return await self._order(questions, ORDERS[type(settings)], ranks)

    async def _order(self, questions: Questions, order: Order, ranks: Sequence[RankInfo]) -> Told:
        # A rank that is stopped already says so.
        those = ranks if order is INTERRUPT else order.those(ranks)
        if not order.those(ranks):
            who = f"none of {name_few(ranks)} is" if len(ranks) > 1 else f"{name_few(ranks)} is not"
            raise BadInput(f"{who} {order.fitting}", "choose others")
        return _values(await questions.order(order, those))

    # --------------------------------------------------------------------------------------------- ranks and source

    async def _find(self, item: messages.Find) -> None:
        target = with_groups(parse_target(item.text), self._groups)
        try:
            ranks = select(target, self._feed.rows.ranks, any_job=True).ranks
        except NoSuchRank:
            ranks = ()
        self._outbox.say(messages.Found(id=item.id, keys=tuple(rank.key for rank in ranks)))

    async def _source(self, item: messages.Source) -> None:
        rank = self._switchboard.directory.by_key.get(item.key)
        if rank is None:
            raise BadInput("this rank is not there any more", "choose another one")
        asker = Asker(self._switchboard)
        path = await file_in_ranks(asker, [rank], item.file)
        first = max(1, item.line - item.around)
        source = await read_source(asker, rank, path, begin=first, count=item.line + item.around + 1 - first)
        self._outbox.say(messages.Lines(id=item.id, file=source.path, first=source.begin, lines=source.lines))


def _settings(line: str) -> RankSettings:
    settings = parse_command(line, os.environ, has_ranks=True)
    if isinstance(settings, verbs.Eval) and (settings.save or settings.against):
        raise BadInput("--save and --against name files of this server's host", "use them in a terminal")
    if isinstance(settings, (verbs.Attach, verbs.Screen)):
        raise BadInput("a page attaches in a terminal of its own", "open the terminal of one rank")
    if settings is None or isinstance(settings, (verbs.Exec, verbs.Stops)):
        what = "help" if settings is None else settings.name
        raise BadInput(f"`{what}` is not for a page", "use it in a terminal")
    return settings


def _question(settings: RankSettings, ranks: Sequence[RankInfo]) -> str:
    """Return what the user has to agree to first, empty for nothing."""
    order = ORDERS.get(type(settings))
    those = order.those(ranks) if order is not None else []
    asks = order is not None and order.asks and (len(those) > 1 or (order is KILL and those))
    return f"{order.asks} {name_few(those)}?" if order is not None and asks else ""


def _values(values: ValueAnswer) -> Told:
    answer = Answer(values)
    return Told(answer.document, str(answer), remembered(values.groups))
