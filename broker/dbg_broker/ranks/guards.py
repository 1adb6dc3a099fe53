"""Guards: their findings, and the questions that they answer: commands and native stacks.

A guard is not a rank and is not listed. It reports that its rank is stuck or suspended, was hit by a fatal signal, or
was ended by one. Its findings are stored with the rank; while the guard is connected, it answers for the rank. A guard
connects only when it has something to report. While it is not connected, a question for it goes to the rank, which
calls its guard. A command is sent to one connection of a guard only, so that it never runs twice.
"""

from __future__ import annotations

import logging
import signal

from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.questions import Asked, EncodedAnswer, broker_answer
from dbg_broker.ranks.rank_record import RankLink, RankRecord
from dbg_broker.ranks.table import PROBE, RankTable
from dbg_broker.relay.relay import Relay, refuse
from dbg_broker.timers import Timers
from dbg_broker.welcome import Welcomes
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    GUARD_ACTIONS,
    Action,
    Answer,
    AnswerBody,
    Ask,
    Finding,
    GuardReport,
    Kind,
    Message,
    Question,
    RefusalCode,
    Register,
    body_of,
)
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import InvalidMessage, decode_record

MAX_ASKS = 64
"""Maximum number of unanswered questions to one guard: enough for a question each second if an answer takes a minute.
"""

WAITS_FOR_RANK = frozenset({Finding.STUCK, Finding.SUSPENDED})
"""Findings that make a guard answer in place of its rank."""

logger = logging.getLogger("dbg_broker")

_ASKED_ALIKE = tuple(name for name in Ask.__struct_fields__ if name not in ("request", "seconds"))


def ask_of(question: Question, number: int, seconds: float) -> Ask:
    """Return the message that asks a rank or its guard this question."""
    return Ask(request=number, seconds=seconds, **{name: getattr(question, name) for name in _ASKED_ALIKE})


def is_of_other_job(link: RankLink, key: str, reply: Register | None) -> bool:
    """Reject a rank or guard whose token does not admit it to a job. Return True if it was rejected.

    ``key`` is the key of the rank, and ``reply`` the rank's registration, if there is one. Raise PeerError if the key
    does not begin with the job: no rank may occupy a key of another job.
    """
    jobs = [key.partition("/")[0], *([] if reply is None else [reply.identity.job])]
    other = next((job for job in jobs if not link.bearer.may_see(job)), None)
    if other is not None:
        text = f"the token is for ranks of job {link.bearer.job}, and this rank belongs to job {other}"
        refuse(link.connection, RefusalCode.ROLE, text)
        link.connection.close(CloseCode.DONE, "its token is for another job")
        return True
    if len(set(jobs)) > 1:
        raise PeerError("register.identity.key does not begin with the rank's job and a slash")
    return False


class Guards:
    """Guards of a table's ranks, and the open questions to them."""

    def __init__(self, timers: Timers, relay: Relay, welcomes: Welcomes, table: RankTable, asked: Asked) -> None:
        self._timers, self._relay, self._welcomes = timers, relay, welcomes
        self._table, self._asked = table, asked

    # -------------------------------------------------------------------------------------------------------- questions

    def pass_on(self, key: str, ask: Ask) -> None:
        """Ask the guard of a rank, or ask the rank to call its guard."""
        guard = self._table.guards.get(key)
        if guard is None:
            self._relay.send(key, ask)
        elif not _give(guard, ask):
            text = f"{MAX_ASKS} questions to its guard are already open; try again later"
            self._asked.answer(key, ask.request, broker_answer(Kind.ERROR, text))

    def speaks_for(self, rank: RankRecord) -> bool:
        """Return True if a rank is unresponsive and its guard answers in its place."""
        guard = self._table.guards.get(rank.key)
        return rank.state is RankState.UNRESPONSIVE and guard is not None and guard.finding is not Finding.CALLED

    # --------------------------------------------------------------------------------------------- messages from guards

    def handle_guard_report(self, link: RankLink, message: GuardReport) -> None:
        """Handle a guard's finding. Raise PeerError if it breaks the protocol."""
        if link.rank is not None or link.guard_of not in (None, message.key):
            raise PeerError("a `guard_report` on the connection of another rank or guard")
        if is_of_other_job(link, message.key, message.registration):
            return
        known = self._table.registry.find(message.key)
        if known is not None and not known.is_same_process(message.secret):
            refuse(link.connection, RefusalCode.TAKEN, f"another process is {known.address}, and this is not its guard")
            link.connection.close(CloseCode.DONE, "this guard belongs to another process")
            return
        rank = known or self._enter_unregistered(message)
        if rank is None:
            refuse(link.connection, RefusalCode.NO_SUCH_RANK, f"no rank has the key {message.key!r}")
            link.connection.close(CloseCode.DONE, "this rank is unknown here")
            return
        if link.guard_of is None:
            link.guard_of = message.key
            self._welcomes.send(link.connection, rank.address, rank.child)
        former, self._table.guards[message.key] = self._table.guards.get(message.key), link
        if former is not None and former is not link:
            self._settle_orphaned_asks(former, message.key)
        self._take_finding(link, rank, message)
        self._take_over(link, message.key)
        rank.frames = message.frames or rank.frames
        if message.kind is Finding.ENDED:
            self._ended(rank)
            link.connection.close(CloseCode.DONE, "the rank has ended")

    def receive(self, link: RankLink, message: Message) -> None:
        """Handle a guard's answer. Raise PeerError if it is invalid, or if the message is not an answer."""
        if not isinstance(message, Answer) or link.guard_of is None:
            raise PeerError("a guard may send only `guard_report` and `answer`")
        if message.kind not in (Kind.VALUE, Kind.ERROR):
            raise PeerError(f"answer kind {message.kind.value!r} is not allowed for a guard")
        ask = link.asks.pop(message.request, None)
        reply = EncodedAnswer(message.kind, bytes(message.body), message.age)
        rank = self._table.registry.find(link.guard_of)
        if rank is not None and (ask is None or ask.action not in GUARD_ACTIONS):
            # The question was about the Python stack, which is stored with the rank.
            reply = self._with_stack(rank, reply)
        self._asked.answer(link.guard_of, message.request, reply)

    def left(self, link: RankLink) -> None:
        """Handle the end of a guard's connection: its rank may continue and then answers for itself."""
        key = link.guard_of
        if key is None or self._table.guards.get(key) is not link:
            return
        del self._table.guards[key]
        rank = self._table.registry.find(key)
        if rank is not None and rank.is_live and key not in self._table.links:
            # The rank itself never connected, and now its guard has disconnected.
            self._table.disconnected(rank)
        elif rank is not None and rank.state is RankState.UNRESPONSIVE:
            self._relay.send(key, PROBE, "probe")
        self._settle_orphaned_asks(link, key)

    def _enter_unregistered(self, message: GuardReport) -> RankRecord | None:
        """Register a rank in the name of its guard, because the rank has not registered and may never do so."""
        if message.registration is None:
            return None
        registered = self._table.registry.register(message.registration, self._timers.clock())
        self._table.readdress(registered.renamed)
        self._table.changed(registered.rank)
        return registered.rank

    def _take_finding(self, link: RankLink, rank: RankRecord, message: GuardReport) -> None:
        spoke_for_rank, link.finding = link.finding in WAITS_FOR_RANK, message.kind
        logger.info("%s (%s): its guard reports %s", rank.address, rank.key, message.kind.value)
        if message.kind in WAITS_FOR_RANK:
            self._table.fell_silent(rank)
        elif message.kind is not Finding.CALLED:
            _note_signal(rank, message)
        elif spoke_for_rank:
            # The rank continues, so probe it. Its guard stays connected only for open questions.
            self._relay.send(rank.key, PROBE, "probe")

    def _take_over(self, guard: RankLink, key: str) -> None:
        """Ask a guard the open questions that only guards can answer, and for a silent rank also those about stacks."""
        if guard.finding is Finding.ENDED:
            return
        actions = GUARD_ACTIONS | {Action.WHERE} if guard.finding in WAITS_FOR_RANK else GUARD_ACTIONS
        now = self._timers.clock()
        for number, one in self._asked.questions.open_about(key):
            if one.question.action in actions:
                self.pass_on(key, ask_of(one.question, number, max(0.0, one.ends - now)))

    def _with_stack(self, rank: RankRecord, reply: EncodedAnswer) -> EncodedAnswer:
        """If a guard's answer has a stack, store it with the rank; otherwise add the stored stack to the answer."""
        try:
            body: AnswerBody = decode_record(AnswerBody, reply.body)
        except InvalidMessage as error:
            raise PeerError(f"can't decode an answer of a guard: {error}") from None
        if body.frames:
            rank.frames = body.frames
            return reply
        return reply._replace(body=bytes(body_of(body.replace(frames=rank.frames))))

    def _settle_orphaned_asks(self, guard: RankLink, key: str) -> None:
        """Pass a disconnected guard's open questions to its rank; answer them as failed if only a guard can answer."""
        left, guard.asks = list(guard.asks.values()), {}
        for ask in left:
            if ask.action in GUARD_ACTIONS:
                text = "its guard disconnected; its unfinished work was stopped"
                self._asked.answer(key, ask.request, broker_answer(Kind.ERROR, text))
            else:
                self._relay.send(key, ask)

    def _ended(self, rank: RankRecord) -> None:
        """Record how a rank ended. The guard got the status from the kernel, so its report takes precedence."""
        own = self._table.links.get(rank.key)
        if own is not None:
            # Close the rank's connection, which is about to end anyway. All its messages arrived before this message of
            # its guard.
            own.connection.abort()
            self._asked.rank_left(own)
        elif rank.is_live:
            self._table.disconnected(rank)
        if rank.state is RankState.LOST:
            self._table.found_dead(rank)
        self._table.registry.killed(rank)
        self._table.line_changed(rank.key)
        self._table.note_failure(rank)


def _give(guard: RankLink, ask: Ask) -> bool:
    """Send a guard a question unless it already has this one. Return False if too many are open."""
    if ask.request in guard.asks:
        return True
    if len(guard.asks) >= MAX_ASKS:
        return False
    guard.asks[ask.request] = ask
    guard.connection.send_message(ask)
    return True


def _note_signal(rank: RankRecord, message: GuardReport) -> None:
    cause = message.cause or (rank.end.cause if message.signal == signal.SIGKILL else "")
    rank.end.signal, rank.end.cause, rank.end.status = message.signal, cause, message.exit
    rank.end.note = message.note
