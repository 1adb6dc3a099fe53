"""Guards: their findings, and the questions that they answer: commands and native stacks.

A guard is no rank and is not listed. It tells that its rank is stuck or suspended, was hit by a fatal signal, or was
ended by one. What it says is kept with the rank; while it stays it answers for the rank. A guard dials only when it has
something to say. While it is not connected the rank is asked, and calls its guard. A command is given to one connection
of a guard and to no other, so that it never runs twice.
"""

from __future__ import annotations

import logging
import signal

from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.questions import Asked, Said, broker_says
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
    Kind,
    Message,
    Question,
    RefusalCode,
    Register,
    Testimony,
    body_of,
)
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import InvalidMessage, decode_record

MAX_ASKS = 64
"""Unanswered questions to one guard that are remembered: one each second for a minute."""

WAITS_FOR_RANK = frozenset({Finding.STUCK, Finding.SUSPENDED})
"""Findings with which a guard answers for its rank."""

logger = logging.getLogger("dbg_broker")

_ASKED_ALIKE = tuple(name for name in Ask.__struct_fields__ if name not in ("request", "seconds"))


def ask_of(question: Question, number: int, seconds: float) -> Ask:
    """Return a question as a rank or its guard is asked."""
    return Ask(request=number, seconds=seconds, **{name: getattr(question, name) for name in _ASKED_ALIKE})


def is_of_other_job(link: RankLink, key: str, said: Register | None) -> bool:
    """Turn away a rank or guard that its token does not admit to a job; tell whether it was turned away.

    ``key`` is that of the rank of which it speaks, and ``said`` the rank's registration, if it brings one. Raise
    PeerError if the key does not name the job: nobody takes a key that the true rank of another job would come with.
    """
    jobs = [key.partition("/")[0], *([] if said is None else [said.identity.job])]
    other = next((job for job in jobs if not link.bearer.may_see(job)), None)
    if other is not None:
        text = f"the token is for ranks of job {link.bearer.job}, and this one is of job {other}"
        refuse(link.connection, RefusalCode.ROLE, text)
        link.connection.close(CloseCode.DONE, "its token is for another job")
        return True
    if len(set(jobs)) > 1:
        raise PeerError("register.identity.key does not begin with the rank's job and a slash")
    return False


class Guards:
    """The guards of a table's ranks, and what they are asked."""

    def __init__(self, timers: Timers, relay: Relay, welcomes: Welcomes, table: RankTable, asked: Asked) -> None:
        self._timers, self._relay, self._welcomes = timers, relay, welcomes
        self._table, self._asked = table, asked

    # --------------------------------------------------------------------------------------------------- what is asked

    def pass_on(self, key: str, ask: Ask) -> None:
        """Ask the guard of a rank, or the rank to call its guard."""
        guard = self._table.guards.get(key)
        if guard is None:
            self._relay.send(key, ask)
        elif not _give(guard, ask):
            text = f"{MAX_ASKS} questions to its guard are open already"
            self._asked.answer(key, ask.request, broker_says(Kind.ERROR, text))

    def speaks_for(self, rank: RankRecord) -> bool:
        """Tell whether a rank is unresponsive and its guard answers for it."""
        guard = self._table.guards.get(rank.key)
        return rank.state is RankState.UNRESPONSIVE and guard is not None and guard.finding is not Finding.CALLED

    # -------------------------------------------------------------------------------------------------- what they say

    def testify(self, link: RankLink, message: Testimony) -> None:
        """Take what a guard has found. Raise PeerError if it breaks the protocol."""
        if link.rank is not None or link.guard_of not in (None, message.key):
            raise PeerError("a `testimony` from somebody else's connection")
        if is_of_other_job(link, message.key, message.registration):
            return
        known = self._table.registry.find(message.key)
        if known is not None and not known.is_same_process(message.secret):
            refuse(link.connection, RefusalCode.TAKEN, f"another process is {known.address}, and this is not its guard")
            link.connection.close(CloseCode.DONE, "it is not the guard of this rank's process")
            return
        rank = known or self._enter_unregistered(message)
        if rank is None:
            refuse(link.connection, RefusalCode.NO_SUCH_RANK, f"no rank has the key {message.key!r}")
            link.connection.close(CloseCode.DONE, "this broker does not know the rank")
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
        """Take anything else that a guard says. Raise PeerError if it is no answer."""
        if not isinstance(message, Answer) or link.guard_of is None:
            raise PeerError("a guard says nothing but `testimony` and `answer`")
        if message.kind not in (Kind.VALUE, Kind.ERROR):
            raise PeerError(f"an answer of kind {message.kind.value!r} from a guard")
        ask = link.asks.pop(message.request, None)
        said = Said(message.kind, bytes(message.body), message.age)
        rank = self._table.registry.find(link.guard_of)
        if rank is not None and (ask is None or ask.action not in GUARD_ACTIONS):
            # It tells of the Python stack that the rank is remembered by.
            said = self._with_stack(rank, said)
        self._asked.answer(link.guard_of, message.request, said)

    def left(self, link: RankLink) -> None:
        """Note that a guard's connection ended: its rank may go on, and answers for itself then."""
        key = link.guard_of
        if key is None or self._table.guards.get(key) is not link:
            return
        del self._table.guards[key]
        rank = self._table.registry.find(key)
        if rank is not None and rank.is_live and key not in self._table.links:
            # The rank itself has never connected, and its guard is gone now.
            self._table.disconnected(rank)
        elif rank is not None and rank.state is RankState.UNRESPONSIVE:
            self._relay.send(key, PROBE, "probe")
        self._settle_orphaned_asks(link, key)

    def _enter_unregistered(self, message: Testimony) -> RankRecord | None:
        """Enter a rank that has not registered, and may never do so."""
        if message.registration is None:
            return None
        registered = self._table.registry.register(message.registration, self._timers.clock())
        self._table.readdress(registered.renamed)
        self._table.changed(registered.rank)
        return registered.rank

    def _take_finding(self, link: RankLink, rank: RankRecord, message: Testimony) -> None:
        spoke_for_rank, link.finding = link.finding in WAITS_FOR_RANK, message.kind
        logger.info("%s (%s) is found %s by its guard", rank.address, rank.key, message.kind.value)
        if message.kind in WAITS_FOR_RANK:
            self._table.fell_silent(rank)
        elif message.kind is not Finding.CALLED:
            _note_signal(rank, message)
        elif spoke_for_rank:
            # The rank goes on, and its guard stays for what it was asked.
            self._relay.send(rank.key, PROBE, "probe")

    def _take_over(self, guard: RankLink, key: str) -> None:
        """Ask the guard what is the guard's, and the stacks of a rank that fell silent before it could answer."""
        if guard.finding is Finding.ENDED:
            return
        actions = GUARD_ACTIONS | {Action.WHERE} if guard.finding in WAITS_FOR_RANK else GUARD_ACTIONS
        now = self._timers.clock()
        for number, one in self._asked.questions.open_about(key):
            if one.question.action in actions:
                self.pass_on(key, ask_of(one.question, number, max(0.0, one.ends - now)))

    def _with_stack(self, rank: RankRecord, said: Said) -> Said:
        """Remember the stack of a guard's answer, or return the answer with the one that is known."""
        try:
            body: AnswerBody = decode_record(AnswerBody, said.body)
        except InvalidMessage as error:
            raise PeerError(f"an answer of a guard that can't be read: {error}") from None
        if body.frames:
            rank.frames = body.frames
            return said
        return said._replace(body=bytes(body_of(body.replace(frames=rank.frames))))

    def _settle_orphaned_asks(self, guard: RankLink, key: str) -> None:
        """Settle what a guard was asked whose connection has ended; its rank is asked what it can answer itself."""
        left, guard.asks = list(guard.asks.values()), {}
        for ask in left:
            if ask.action in GUARD_ACTIONS:
                text = "its guard has gone, and has ended what it had begun"
                self._asked.answer(key, ask.request, broker_says(Kind.ERROR, text))
            else:
                self._relay.send(key, ask)

    def _ended(self, rank: RankRecord) -> None:
        """Enter how a rank's process has ended; the guard knows it from the kernel, so it counts for more."""
        own = self._table.links.get(rank.key)
        if own is not None:
            # Its connection ends in a moment, too; all that the rank had to say came before its guard's message.
            own.connection.abort()
            self._asked.rank_left(own)
        elif rank.is_live:
            self._table.disconnected(rank)
        if rank.state is RankState.LOST:
            self._table.found_dead(rank)
        self._table.registry.killed(rank)
        self._table.listed_anew(rank.key)
        self._table.note_failure(rank)


def _give(guard: RankLink, ask: Ask) -> bool:
    """Give a guard a question, unless too many are open or the guard has this one; return whether there was room."""
    if ask.request in guard.asks:
        return True
    if len(guard.asks) >= MAX_ASKS:
        return False
    guard.asks[ask.request] = ask
    guard.connection.send_message(ask)
    return True


def _note_signal(rank: RankRecord, message: Testimony) -> None:
    cause = message.cause or (rank.end.cause if message.signal == signal.SIGKILL else "")
    rank.end.signal, rank.end.cause, rank.end.status = message.signal, cause, message.exit
    rank.end.note = message.note
