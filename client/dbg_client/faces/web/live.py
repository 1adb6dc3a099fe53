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
from dbg_client.core.choose import find, is_ready
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
    reached_by,
    value_question,
)
from dbg_client.views.groups import remembered
from dbg_client.views.list import list_document
from dbg_client.views.missing import missing_documents
from dbg_client.views.naming import name_few
from dbg_client.views.stacks import MISSING, missing_from_collectives
from dbg_client.words import settings as verbs
from dbg_client.words.other_faces import ONLY_IN_A_TERMINAL
from dbg_client.words.session_line import USUAL_TARGETS, parse_command, read_scope
from dbg_client.words.settings import RankSettings
from dbg_client.words.verbs import VERBS
from dbg_dial.kernel import user_name
from dbg_wire.errors import AmbiguousTarget, BadInput, NoSuchRank, PeerError
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState
from dbg_wire.targets.grammar import in_job
from dbg_wire.targets.selection import Target, parse_target, select

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

WORDS = {"help", *(row.name for row in VERBS if row.in_session is not None)}
"""Words with which a line is no expression."""

MAX_ANSWERS = 60
"""Answers of one page whose groups are known by name; the page keeps as many."""

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


class Meant(NamedTuple):
    """The ranks that a line is about.

    ``target`` says which missing ranks are told, None for all. ``whom`` names what the line or its verb means.
    """

    ranks: Sequence[RankInfo]
    target: Target | None
    whom: str


class LivePage:
    """One page: its open questions, which end with it, and the groups of its answers.

    ``why_not`` says why the page may change nothing, and is empty if it may.
    """

    def __init__(self, switchboard: Switchboard, feed: Feed, outbox: Outbox, why_not: Callable[[], str]) -> None:
        self._switchboard, self._feed, self._outbox, self._why_not = switchboard, feed, outbox, why_not
        self._groups: dict[int, Mapping[str, frozenset[str]]] = {}
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
            meant = self._meant(item, settings, changes=changes)
            if changes and is_first:
                question = _question(settings, meant.ranks, self._feed.rows.ranks)
                # Other ranks may fit by now than those to which the user has agreed.
                if question != item.yes and question:
                    self._outbox.say(messages.Confirm(id=item.id, question=question))
                    return
                self._feed.note("asked", line, meant.ranks, user_name())
            told = await self._ask(settings, meant, item.id)
            self._remember(item.id, told.members)
            answer = messages.Answer(
                id=item.id,
                at=time.time(),
                document=msgspec.Raw(msgspec.json.encode(told.document)),
                text=told.text,
                whom=meant.whom,
                members={name: tuple(keys) for name, keys in told.members.items()},
                last=item.every is None,
            )
            self._outbox.say(answer)
            if item.every is None:
                return
            is_first = False
            await asyncio.sleep(item.every)

    def _remember(self, number: int, members: Mapping[str, Sequence[str]]) -> None:
        self._groups.pop(number, None)
        self._groups[number] = {name: frozenset(keys) for name, keys in members.items()}
        if len(self._groups) > MAX_ANSWERS:
            del self._groups[next(iter(self._groups))]

    def _target(self, text: str, shown: int | None) -> Target:
        return with_groups(parse_target(text), {} if shown is None else self._groups.get(shown, {}))

    def _meant(self, item: messages.Ask, settings: RankSettings, *, changes: bool) -> Meant:
        """Return the ranks that are meant, of those that this server shows."""
        rows = self._feed.rows
        if settings.target is None and item.keys:
            wanted = frozenset(item.keys)
            target = with_groups(parse_target("@1"), {"@1": wanted})
            chosen = [rank for rank in rows.ranks if rank.key in wanted]
            if not chosen:
                raise BadInput("none of the chosen ranks is there any more", "choose others")
            return Meant(chosen, target, "")
        named = settings.target or item.ranks
        text = named or USUAL.get(settings.name)
        is_live = isinstance(settings, verbs.Eval) and settings.live
        if not named and (is_live or not any(map(_is_halted, rows.ranks))):
            text = "all" if isinstance(settings, (verbs.Eval, verbs.Continue)) else text
        if text is None:
            raise BadInput(f"`{settings.name}` needs ranks", "choose some, or name them, e.g. `0-7`")
        if not text:
            return Meant(rows.ranks, rows.target, "")
        target = read_scope(self._target(text, item.shown), item.job)
        try:
            # A page that shows several jobs may look at all of them at once.
            found = find(target, rows.ranks) if named or changes else select(target, rows.ranks, any_job=True)
        except AmbiguousTarget as error:
            raise error if named else _name_job(settings, text, rows.ranks) from None
        if text == "all":
            return Meant(found.ranks, rows.target or target, "all ranks" if settings.target else "")
        if isinstance(settings, verbs.Continue) and not named:
            # Ranks that were asked to stop, and have not stopped yet, go on as well.
            jobs = {rank.job for rank in found.ranks}
            return Meant([rank for rank in rows.ranks if rank.job in jobs], target, text)
        return Meant(found.ranks, target, text)

    async def _ask(self, settings: RankSettings, meant: Meant, number: int) -> Told:
        ranks, known = meant.ranks, self._switchboard.directory.ranks
        line = WaitingLine(lambda text: self._outbox.say(messages.Progress(id=number, text=text)) if text else None)
        asker = Asker(self._switchboard, settings.broker.timeout, line=line)
        questions = Questions(self._switchboard, asker, meant.target)
        if isinstance(settings, verbs.Eval) and not any(map(_is_halted, ranks)):
            settings = settings.replace(live=True)
        if isinstance(settings, verbs.Asked):
            action, wishes = value_question(settings, ranks)
            return _values(await questions.values(ranks, action, settings.question, wishes))
        if isinstance(settings, verbs.Where):
            stacks = await questions.stacks(ranks, threads=settings.threads, native=settings.native)
            return Told(Where(stacks).document, stacks.shown(), remembered(stacks.groups))
        if isinstance(settings, verbs.Why):
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
            listed = list_ranks(known, meant.target, ranks, with_exited=settings.all)
            document = list_document(listed.shown, missing_documents(listed.absent))
            return Told(document, listed.table(color=False, fold=True))
        return await self._order(questions, ORDERS[type(settings)], ranks)

    async def _order(self, questions: Questions, order: Order, ranks: Sequence[RankInfo]) -> Told:
        if not reached_by(order, ranks):
            names = name_few(ranks, self._feed.rows.ranks)
            who = f"none of {names} is" if len(ranks) > 1 else f"{names} is not"
            raise BadInput(f"{who} {order.fitting}", "choose others")
        return _values(await questions.order(order, ranks))

    # --------------------------------------------------------------------------------------------- ranks and source

    async def _find(self, item: messages.Find) -> None:
        target = self._target(item.text, item.shown)
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
    if isinstance(settings, (verbs.Attach, verbs.Screen)):
        raise BadInput("a page attaches in a terminal of its own", "open the terminal of one rank")
    if settings is None or isinstance(settings, verbs.Exec):
        what = "help" if settings is None else settings.name
        raise BadInput(f"`{what}` is not for a page", "use it in a terminal")
    return settings


def _is_halted(rank: RankInfo) -> bool:
    return is_ready(rank) or rank.state is RankState.HELD


def _name_job(settings: RankSettings, text: str, ranks: Sequence[RankInfo]) -> BadInput:
    """Return the error for a line without a target whose ranks are of several jobs."""
    job = max(rank.job for rank in ranks if rank.state in LIVE_STATES)
    line = f"{job}/all" if isinstance(settings, verbs.Eval) else f"{settings.name} {in_job(text, job)}"
    asked = f" {settings.question}" if isinstance(settings, verbs.Asked) else ""
    return BadInput("several jobs have such ranks", f"name one of them, as in `{line}{asked}`")


def _question(settings: RankSettings, ranks: Sequence[RankInfo], known: Sequence[RankInfo]) -> str:
    """Return what the user has to agree to first, empty for nothing."""
    order = ORDERS.get(type(settings))
    those = order.those(ranks) if order is not None else []
    asks = order is not None and order.asks and (len(those) > 1 or (order is KILL and those))
    return f"{order.asks} {name_few(those, known)}?" if order is not None and asks else ""


def _values(values: ValueAnswer) -> Told:
    answer = Answer(values)
    return Told(answer.document, str(answer), remembered(values.groups))
