"""Questions of terminals to ranks: the broker answers some itself, and passes the others to a rank or its guard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dbg_broker.home.tokens import Role
from dbg_broker.journal.audit import text_of
from dbg_broker.journal.journal import Journal
from dbg_broker.net.outbox import Turns
from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.guards import Guards, ask_of
from dbg_broker.ranks.questions import Asked, EncodedAnswer, broker_answer
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.table import RankTable
from dbg_broker.relay.relay import Relay, refuse
from dbg_broker.relay.weights import FOR_EACH_RANK, FOR_EACH_RANK_OF_WATCHER
from dbg_broker.terminals.link import TerminalLink
from dbg_broker.terminals.listing import Listing
from dbg_broker.terminals.notices import Notices, VisibleAction, visible_action
from dbg_broker.timers import Timers
from dbg_command.audit import AuditEvent
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_ASK_SECONDS
from dbg_wire.messages import (
    GUARD_ACTIONS,
    Action,
    Ask,
    Kind,
    Question,
    RefusalCode,
    Withdraw,
)
from dbg_wire.records.inspection import CommandLine
from dbg_wire.records.ranks import RankState

MAX_QUESTIONS = 16
"""Maximum number of open questions of one terminal, including ended questions with answers that still wait to be sent.
"""

NEEDS_STOP = frozenset({Action.CONTINUE, Action.SCREEN, Action.EVAL, Action.COMMAND, Action.INSPECT})
"""Questions that a running rank answers only if they are ``live``."""

NOBODY = 0
"""Number of a question whose answer is ignored; open questions have numbers from one."""


class _Waiting(NamedTuple):
    """A terminal that waits for answers."""

    link: TerminalLink
    listing: Listing

    @property
    def number(self) -> int:
        return self.link.number

    def answer(self, request: int, key: str, reply: EncodedAnswer, *, is_last: bool) -> None:
        self.link.answers.add(request, key, reply)
        if is_last:
            self.link.answers.end(request)
        self.listing.supply_answers(self.link)

    def end(self, request: int) -> None:
        self.link.answers.end(request)
        self.listing.supply_answers(self.link)


class _Question(NamedTuple):
    """Question on its way to the ranks: its terminal, its content, the message to the ranks, and its visible action."""

    link: TerminalLink
    question: Question
    ask: Ask
    visible: VisibleAction | None


class QuestionDispatcher:
    """Questions of terminals to the ranks of a table."""

    def __init__(
        self,
        timers: Timers,
        turns: Turns,
        relay: Relay,
        journal: Journal,
        *,
        table: RankTable,
        asked: Asked,
        guards: Guards,
        listing: Listing,
        notices: Notices,
    ) -> None:
        self._timers, self._turns, self._relay, self._journal = timers, turns, relay, journal
        self._table, self._asked, self._guards = table, asked, guards
        self._listing, self._notices = listing, notices

    def receive(self, link: TerminalLink, message: Question) -> None:
        """Pass a question to its ranks, or refuse it. Known answers are sent at once."""
        questions = self._asked.questions
        if len(questions.of(link.number)) + link.answers.ended >= MAX_QUESTIONS:
            text = f"{MAX_QUESTIONS} questions are already open; wait for their answers"
            refuse(link.connection, RefusalCode.FULL, text, message.request)
            return
        if message.action is Action.EXEC and not isinstance(message.inquiry, CommandLine):
            raise PeerError("an `exec` without a command")
        number, keys = questions.ask(_Waiting(link, self._listing), message, self._timers.clock())
        weight = FOR_EACH_RANK_OF_WATCHER if link.role is Role.WATCHER else FOR_EACH_RANK[Question]
        link.connection.charge(weight * len(keys))
        noted = text_of(message)
        self._journal.note(link, AuditEvent.QUESTION, message.keys, action=message.action.value, text=noted)
        if not keys:
            self._asked.end(number)
            return
        ask = ask_of(message, number, min(message.seconds, MAX_ASK_SECONDS))
        self._turns.start(self._asking(_Question(link, message, ask, visible_action(message)), keys))

    def withdraw(self, link: TerminalLink, message: Withdraw) -> None:
        """End a question that its terminal withdraws. Ignore a question that has ended."""
        number = self._asked.questions.number_of(link.number, message.request)
        if number is not None:
            self._asked.end(number)

    def _asking(self, asking: _Question, keys: Iterable[str]) -> Iterator[None]:
        """Answer in place of each rank whose recorded state answers the question, and ask the other ranks."""
        frame = pack_message(asking.ask)
        for key in keys:
            if self._asked.questions.waits_for(asking.ask.request, key):
                rank = self._table.registry.find(key)
                if rank is None or not asking.link.bearer.may_see(rank.identity.job):
                    self._asked.answer(key, asking.ask.request, broker_answer(Kind.LOST, "no rank has this key"))
                elif (known := self._known_answer(rank, asking.question)) is not None:
                    self._answer_for(asking, key, known)
                else:
                    self._ask(rank, asking, frame)
            yield

    def _ask(self, rank: RankRecord, asking: _Question, frame: bytes) -> None:
        """Send a question to a rank or its guard; ``frame`` is the encoded question."""
        key, ask = rank.key, asking.ask
        if asking.visible is not None:
            self._notices.notify_onlookers(asking.link, asking.visible, key)
        if ask.action is Action.KILL:
            self._table.registry.condemned(key, asking.link.name or "somebody")
        if ask.action in GUARD_ACTIONS or (ask.action is Action.WHERE and self._guards.speaks_for(rank)):
            self._guards.pass_on(key, ask)
        elif (peer := self._relay.ranks.get(key)) is None or not peer.send_packed(ask, frame):
            text = "the rank is not connected, or does not read its messages"
            self._asked.answer(key, ask.request, broker_answer(Kind.ERROR, text))
        else:
            self._table.probes.asked(key, self._timers.clock())

    def _answer_for(self, asking: _Question, key: str, known: EncodedAnswer) -> None:
        if asking.ask.action is Action.INTERRUPT:
            if asking.visible is not None and known.kind is Kind.RUNNING:
                self._notices.notify_onlookers(asking.link, asking.visible, key)
            # Interrupt the rank anyway, and ignore its answer: a rank that is stuck in C code stops when the C code
            # returns.
            self._relay.send(key, asking.ask.replace(request=NOBODY))
        self._asked.answer(key, asking.ask.request, known)

    def _known_answer(self, rank: RankRecord, question: Question) -> EncodedAnswer | None:
        """Return the broker's own answer, or None if the rank must be asked."""
        frames = rank.frames if question.action is Action.WHERE else ()
        if rank.state is RankState.EXITED:
            return broker_answer(Kind.LOST, rank.end.listed().text, frames=frames)
        if rank.state is RankState.LOST:
            return broker_answer(Kind.LOST, "its connection is lost", frames=frames)
        if question.action in GUARD_ACTIONS:
            return None
        age = self._timers.clock() - rank.heard
        if rank.state is RankState.UNRESPONSIVE and question.action is Action.WHERE:
            if self._guards.speaks_for(rank):
                return None
            return broker_answer(
                Kind.VALUE, f"unresponsive, last seen {age:.0f} s ago", frames=frames, age=round(age, 3)
            )
        if rank.state is RankState.UNRESPONSIVE and question.action is Action.INTERRUPT:
            if question.withdrawn:
                return broker_answer(Kind.VALUE, "continues")
            text = f"in C code{_place(rank, ' at ')}, unresponsive for {age:.0f} s; stops on return"
            return broker_answer(Kind.RUNNING, text)
        if question.action in NEEDS_STOP and not rank.halted and not question.live:
            return broker_answer(Kind.RUNNING, f"running{_place(rank, ', ')}")
        if question.action is Action.RELEASE and rank.state is not RankState.HELD:
            return broker_answer(Kind.ERROR, f"{rank.state.value}, not held")
        return None


def _place(rank: RankRecord, before: str) -> str:
    return f"{before}{rank.place.file}:{rank.place.line}" if rank.place is not None else ""
