"""The ``/live`` socket of one page: sends all updates, and answers questions written as in a session."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dbg_client.command_line.session_line import read_scope, read_session_line, session_verbs
from dbg_client.core.asking import Asker
from dbg_client.core.choose import find, is_ready
from dbg_client.core.remembered_groups import with_groups
from dbg_client.core.requests import OpenRequests, sentence_of
from dbg_client.core.switchboard import Switchboard
from dbg_client.core.wait_progress import WaitingLine, show_nobody
from dbg_client.exec import Exec
from dbg_client.verbs.control import Continue
from dbg_client.verbs.list import ListRanks
from dbg_client.verbs.screen import Screen
from dbg_client.verbs.values import Eval
from dbg_client.verbs.verb import Answer, Asking, RanksVerb
from dbg_client.views.naming import name_few
from dbg_client.web import messages
from dbg_client.web.feed import hang_verdicts
from dbg_client.web.rows import shown
from dbg_client.why.verb import Why, WhyAnswer
from dbg_command.targets import Target, parse_target, select
from dbg_wire.errors import AmbiguousTarget, BadInput, NoSuchRank, PeerError
from dbg_wire.messages import Action, Question, RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState

if TYPE_CHECKING:
    from dbg_client.web.feed import Feed
    from dbg_client.web.outbox import Outbox
    from dbg_client.why.explain import SavedJob

MAX_AT_ONCE = 16
"""Maximum open questions of one page. The broker allows as many for the connection that all pages share."""

MAX_ANSWERS = 60
"""Maximum answers of one page whose groups, such as ``@2``, can be named; the page also keeps this many answers."""

NAME_ONE = "name the ranks of one job, such as `train-4711/all`"

COMMANDS = {
    "list": "the grid",
    "wait": "the grid",
    "interrupt": "`interrupt {ranks}`",
    "release": "`release {ranks}`",
    "attach": "the terminal of {ranks}",
}
"""The page's replacement for each terminal command that an error names."""


class SavedAnswers(Asker):
    """Asker that takes the answers to questions about stacks from a report."""

    def __init__(self, switchboard: Switchboard, saved: SavedJob) -> None:
        super().__init__(switchboard)
        self._answers = dict(zip((rank.key for rank in saved.ranks), saved.answers, strict=True))

    async def _put(self, question: Question, ranks: Sequence[RankInfo]) -> list[RankAnswer]:
        if question.action is not Action.WHERE or question.threads:
            raise BadInput("a report does not contain that", "ask `where`, `why` or `collectives`")
        return [self._answers[rank.key] for rank in ranks]


class Meant(NamedTuple):
    """The ranks that a line is about.

    Missing ranks are reported if ``target`` selects them. If ``target`` is None, all missing ranks are reported.
    ``whom`` is the target that the line or the verb names.
    """

    ranks: Sequence[RankInfo]
    target: Target | None
    whom: str


class LivePage:
    """One page: its open questions, which are cancelled when the page disconnects, and the groups of its answers.

    ``why_not`` returns why the page may not change ranks, or "" if it may. If given, ``saved`` answers the questions.
    """

    def __init__(
        self,
        switchboard: Switchboard,
        feed: Feed,
        outbox: Outbox,
        why_not: Callable[[], str],
        saved: SavedJob | None = None,
    ) -> None:
        self._switchboard, self._feed, self._outbox, self._why_not = switchboard, feed, outbox, why_not
        self._saved = saved
        self._groups: dict[int, Mapping[str, frozenset[str]]] = {}
        self._requests = OpenRequests(MAX_AT_ONCE, "question")
        feed.join(outbox)

    async def receive(self, frame: str | bytes) -> None:
        """Handle a message of the page. Raises PeerError."""
        if isinstance(frame, bytes):
            raise PeerError("bytes from a page, where only text is allowed")
        item = messages.read(messages.LIVE, frame)
        if isinstance(item, messages.Ask):
            self._start(item.id, lambda: self._answer(item))
        elif isinstance(item, messages.Find):
            self._start(item.id, lambda: self._find(item))
        elif self._requests.cancel(item.id):
            self._outbox.send(messages.Failed(id=item.id, sentence="cancelled"))

    async def leave(self) -> None:
        """Cancel open questions, and unsubscribe the page."""
        self._feed.leave(self._outbox)
        await self._requests.close()

    def _start(self, number: int, work: Callable[[], Awaitable[None]]) -> None:
        if why_not := self._requests.start(number, lambda: self._try(number, work)):
            self._outbox.send(messages.Failed(id=number, sentence=f"the question was not sent: {why_not}"))

    async def _try(self, number: int, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            self._outbox.send(messages.Failed(id=number, sentence=sentence_of(error, COMMANDS)))

    # --------------------------------------------------------------------------------------------------- questions

    async def _answer(self, item: messages.Ask) -> None:
        line = item.line if item.line.partition(" ")[0] in session_verbs() else f"eval {item.line}"
        verb = _verb(line)
        meant = self._meant(item, verb)
        if verb.may_change():
            if why_not := self._why_not():
                raise BadInput(f"`{verb.name}` may change the program", why_not)
            asks, those = verb.consent(meant.ranks)
            question = f"{asks} {name_few(those, self._feed.rows.ranks)}?" if those else ""
            # Ask for consent, and ask again if the matching ranks have changed since the user agreed.
            if question != item.yes and question:
                self._outbox.send(messages.Confirm(id=item.id, question=question))
                return
        answer = await self._ask(verb, meant, item.id)
        self._remember(item.id, answer.groups)
        self._outbox.send(shown(item.id, answer, meant.whom))

    def _remember(self, number: int, members: Mapping[str, Sequence[str]]) -> None:
        self._groups.pop(number, None)
        self._groups[number] = {name: frozenset(keys) for name, keys in members.items()}
        if len(self._groups) > MAX_ANSWERS:
            del self._groups[next(iter(self._groups))]

    def _target(self, text: str, shown: int | None) -> Target:
        return with_groups(parse_target(text), {} if shown is None else self._groups.get(shown, {}))

    def _meant(self, item: messages.Ask, verb: RanksVerb) -> Meant:
        """Return the ranks that a line is about, among those that this server shows."""
        rows = self._feed.rows
        if verb.target is None and item.keys:
            wanted = frozenset(item.keys)
            target = with_groups(parse_target("@1"), {"@1": wanted})
            chosen = [rank for rank in rows.ranks if rank.key in wanted]
            if not chosen:
                raise BadInput("none of the selected ranks is connected any more", "select others")
            return Meant(chosen, target, "")
        named = verb.target or item.ranks
        if not named and isinstance(verb, ListRanks):
            return Meant(rows.ranks, rows.target, "")
        text = named or self._usual(verb)
        if text is None:
            raise BadInput(f"`{verb.name}` needs ranks", "select some, or name them, e.g. `0-7`")
        target = read_scope(self._target(text, item.shown), item.job)
        try:
            # Read-only questions may cover several jobs at once.
            is_strict = named or verb.may_change()
            found = find(target, rows.ranks) if is_strict else select(target, rows.ranks, any_job=True)
        except AmbiguousTarget as error:
            raise error if named else BadInput("several jobs match", NAME_ONE) from None
        if text == "all":
            return Meant(found.ranks, rows.target or target, "all ranks" if verb.target else "")
        if isinstance(verb, Continue) and not named:
            # `continue` is also for ranks that were asked to stop and have not stopped yet.
            jobs = {rank.job for rank in found.ranks}
            return Meant([rank for rank in rows.ranks if rank.job in jobs], target, text)
        return Meant(found.ranks, target, text)

    def _usual(self, verb: RanksVerb) -> str | None:
        """Return the usual ranks of a verb if none are selected: unlike a terminal, a page has no rank of its own."""
        none_is_halted = not any(map(_is_halted, self._feed.rows.ranks))
        if isinstance(verb, Eval) and (verb.live or none_is_halted):
            return "all"
        return "all" if isinstance(verb, Continue) and none_is_halted else verb.usual

    async def _ask(self, verb: RanksVerb, meant: Meant, number: int) -> Answer:
        known = self._switchboard.directory.ranks
        line = WaitingLine(lambda text: self._outbox.send(messages.Progress(id=number, text=text)) if text else None)
        asker = Asker(self._switchboard, verb.broker.timeout, line=line)
        if self._saved is not None:
            asker = SavedAnswers(self._switchboard, self._saved)
            if isinstance(verb, Why):
                return WhyAnswer(None, self._saved.found)
        if isinstance(verb, Eval) and not any(map(_is_halted, meant.ranks)):
            verb = verb.replace(live=True)
        answer = await verb.ask(
            Asking(asker=asker, ranks=meant.ranks, known=known, target=meant.target, show=show_nobody)
        )
        if isinstance(answer, WhyAnswer):
            for verdict in hang_verdicts(answer.found, known):
                self._feed.judge(verdict)
        return answer

    # --------------------------------------------------------------------------------------------- ranks and source

    async def _find(self, item: messages.Find) -> None:
        target = self._target(item.text, item.shown)
        try:
            ranks = select(target, self._feed.rows.ranks, any_job=True).ranks
        except NoSuchRank:
            ranks = ()
        self._outbox.send(messages.Found(id=item.id, keys=tuple(rank.key for rank in ranks)))


def _verb(line: str) -> RanksVerb:
    verb = read_session_line(line, os.environ, has_ranks=True)
    if verb is None or isinstance(verb, Exec):
        what = "help" if verb is None else verb.name
        raise BadInput(f"`{what}` does not work in a page", "use it in a terminal")
    if not isinstance(verb, RanksVerb) or isinstance(verb, Screen):
        raise BadInput("a page attaches to a rank in a separate terminal", "open the terminal of one rank")
    return verb


def _is_halted(rank: RankInfo) -> bool:
    return is_ready(rank) or rank.state is RankState.HELD
