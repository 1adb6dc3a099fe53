"""Legs: the ways of this broker's terminals to ranks of other brokers.

A terminal has one leg to each broker of whose ranks it wants something. What it says from its seat at such a rank is
passed on by the leg, and what comes back goes to its connection, unread but for what moves a seat. Questions to ranks
of another broker go by the terminal's leg too, and their answers are entered among those of the own ranks.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from dbg_broker.hub.cluster import remote_answers
from dbg_broker.hub.cluster.messages import (
    CloseLeg,
    ClusterMessage,
    LegFrame,
    LegRest,
    LegSaid,
    LegSilent,
    LegTaken,
    OpenLeg,
)
from dbg_broker.hub.cluster.remote_answers import RemoteQuestion
from dbg_broker.hub.cluster.remote_terminal import WINDOW_BYTES
from dbg_broker.hub.links import TerminalLink
from dbg_broker.net.websocket import CloseCode, is_data, pack_data, pack_message, payload_of
from dbg_wire import limits
from dbg_wire.codec import decode
from dbg_wire.errors import PeerError, printable
from dbg_wire.messages import Attach, Detach, Message, Notice, Question, Refusal, Seat, Sender
from dbg_wire.records.record import name_of

if TYPE_CHECKING:
    from dbg_broker.hub.cluster.cluster import Cluster
    from dbg_broker.hub.state import Hub

logger = logging.getLogger("dbg_broker")

CREDIT_BYTES = WINDOW_BYTES // 4
"""Bytes that a terminal has taken of a leg before credit is given back: small frames cost no message each."""

ITS_BROKER_CUT = "the way to its broker was cut"


@dataclass(slots=True, eq=False)
class Leg:
    """One terminal's way to one other broker.

    ``waiting`` are bytes that its connection has not taken yet, and ``taken`` those for which no credit was given back.
    ``questions`` are what is asked on it, by their numbers among all open questions.
    """

    number: int
    broker: str
    link: TerminalLink
    waiting: int = 0
    taken: int = 0
    questions: dict[int, RemoteQuestion] = field(default_factory=dict)


@dataclass(slots=True)
class _Way:
    """The legs of one terminal by their brokers, on which it sits at which rank, and on which it wants to sit."""

    legs: dict[str, Leg] = field(default_factory=dict)
    seat: Leg | None = None
    key: str = ""
    asked: Leg | None = None
    asked_key: str = ""
    is_silent: bool = False

    @property
    def at(self) -> Leg | None:
        """Return where what the terminal says from its seat belongs: an attach may be under way."""
        return self.asked or self.seat


class Legs:
    """The legs of this broker's terminals."""

    def __init__(self, hub: Hub, cluster: Cluster) -> None:
        self._hub, self._cluster = hub, cluster
        self._ways: dict[int, _Way] = {}
        self._legs: dict[int, Leg] = {}
        self._numbers = count(1)
        cluster.on(LegFrame, self._frame)
        cluster.on(LegRest, self._rest)

    def __len__(self) -> int:
        return len(self._legs)

    # ----------------------------------------------------------------------------------------------- what terminals say

    def attach(self, link: TerminalLink, broker: str, message: Attach) -> bool:
        """Pass on that a terminal wants a seat at a rank of another broker; False if that one can't be reached."""
        leg = self._leg(link, broker)
        if leg is None or not self._say(leg, message):
            return False
        way = self._ways[link.number]
        way.asked, way.asked_key = leg, message.key
        return True

    def pass_on(self, link: TerminalLink, said: Message | bytes) -> bool:
        """Pass on what a terminal says from its seat, if that is at a rank of another broker; tell whether it is."""
        way = self._ways.get(link.number)
        if way is None or (leg := way.at) is None:
            return False
        if isinstance(said, bytes):
            self._hub.connections.times.key_is_passed_on()
        # What is lost is made good when NATS is back: the terminal gets its seat anew, and says again what counts.
        self._say(leg, said)
        if isinstance(said, Detach):
            self._leave(way)
        return True

    def sits_here(self, link: TerminalLink) -> None:
        """Free the seat of a terminal at another broker's rank: it has one at a rank of this broker now."""
        way = self._ways.get(link.number)
        if way is not None and (leg := way.at) is not None:
            self._say(leg, Detach())
            self._leave(way)

    def seat_of(self, link: TerminalLink) -> str:
        """Return the key of the rank of another broker where a terminal sits, empty if it sits at none."""
        way = self._ways.get(link.number)
        return "" if way is None else way.key

    def terminal_left(self, link: TerminalLink) -> None:
        """End the legs of a terminal that has left."""
        way = self._ways.pop(link.number, None)
        for leg in () if way is None else tuple(way.legs.values()):
            self._end(leg, tells=True)

    def drained(self, link: TerminalLink, *, missed: bool) -> None:
        """Give back credit for what a terminal's connection has taken; ``missed`` if it has dropped output before."""
        way = self._ways.get(link.number)
        for leg in () if way is None else tuple(way.legs.values()):
            leg.taken, leg.waiting = leg.taken + leg.waiting, 0
            self._give_back(leg, missed=missed and way is not None and leg is way.seat)

    def heard(self, link: TerminalLink, unheard: float) -> None:
        """Tell for how long nothing has been heard of a terminal, once that counts as a silence, and when it ends."""
        way, is_silent = self._ways.get(link.number), unheard >= limits.SILENT_SECONDS
        if way is not None and way.is_silent != is_silent:
            way.is_silent = is_silent
            for leg in way.legs.values():
                self._send(leg, LegSilent(leg=leg.number, seconds=unheard if is_silent else 0.0))

    # -------------------------------------------------------------------------------------------------------- questions

    def asking(
        self, link: TerminalLink, question: Question, number: int, keys: Iterable[str]
    ) -> Generator[None, None, list[str]]:
        """Ask other brokers about their ranks, in steps, and return the keys of those to be asked here."""
        hub = self._hub
        here: list[str] = []
        there: dict[str, list[str]] = {}
        for key in keys:
            rank = hub.ranks.registry.find(key)
            if rank is not None and rank.owner and hub.terminals.listing.may_see(link, key):
                there.setdefault(rank.owner, []).append(key)
            else:
                here.append(key)
            yield
        for broker, of_broker in there.items():
            if hub.ranks.questions.is_open(number):
                self._ask(link, broker, question, number, of_broker)
        return here

    def _ask(self, link: TerminalLink, broker: str, question: Question, number: int, keys: list[str]) -> None:
        hub = self._hub
        left = hub.ranks.questions.deadline(number) - hub.timers.clock()
        asked = question.replace(request=number, keys=tuple(keys), seconds=remote_answers.seconds_there(left))
        leg = self._leg(link, broker)
        remote = RemoteQuestion(number, dict.fromkeys(keys), hub.ranks.questions.seconds(number))
        if leg is None or not self._say(leg, asked):
            remote_answers.settle_all(hub, remote, self._cluster.why_unreachable(broker))
            return
        for over in [one for one in leg.questions if not hub.ranks.questions.is_open(one)]:
            del leg.questions[over]
        leg.questions[number] = remote

    # ------------------------------------------------------------------------------------------------- what brokers say

    def _frame(self, sender: str, message: LegFrame) -> None:
        leg = self._legs.get(message.leg)
        if leg is None or leg.broker != sender:
            return
        size = len(message.frame)
        if is_data(message.frame):
            self._pass_output(leg, message.frame)
        elif (text := payload_of(message.frame)).startswith(remote_answers.PREFIXES):
            leg.taken += size
            self._take_answers(leg, text)
        else:
            self._pass_text(leg, message.frame, text)
        self._give_back(leg)

    def _take_answers(self, leg: Leg, text: bytes) -> None:
        try:
            remote_answers.take(self._hub, leg.questions, text)
        except PeerError as error:
            logger.warning("the broker %s is not understood: %s", printable(leg.broker), printable(error.reason))

    def _pass_output(self, leg: Leg, frame: bytes) -> None:
        """Pass terminal bytes on; a terminal that has left the rank meanwhile doesn't see them."""
        way, meters = self._ways[leg.link.number], self._hub.connections.meters
        if way.seat is not leg:
            leg.taken += len(frame)
            return
        self._hub.connections.times.key_is_passed_on()
        if leg.link.connection.send_output(frame):
            meters.bytes_to_terminals += len(frame)
        else:
            meters.dropped_frames += 1
        leg.waiting += len(frame)

    def _pass_text(self, leg: Leg, frame: bytes, text: bytes) -> None:
        way = self._ways[leg.link.number]
        if text.startswith(_SEAT):
            if not self._sit(way, leg, text):
                leg.taken += len(frame)
                return
        elif text.startswith(_REFUSAL):
            if self._is_refused_question(leg, text):
                leg.taken += len(frame)
                return
            if way.asked is leg:
                way.asked, way.asked_key = None, ""
        elif way.seat is not leg or self._comes_twice(leg, text):
            leg.taken += len(frame)
            return
        leg.waiting += len(frame)
        leg.link.connection.send_control(frame)

    def _comes_twice(self, leg: Leg, text: bytes) -> bool:
        """Tell whether this is the text of a log point for a terminal that is sent those of all ranks."""
        if leg.link.number not in self._hub.terminals.log_listeners.behind or not text.startswith(_NOTICE):
            return False
        notice = _decoded(leg, text)
        return isinstance(notice, Notice) and notice.is_log

    def _sit(self, way: _Way, leg: Leg, text: bytes) -> bool:
        """Take note of a seat that another broker gives; return whether the terminal still wants it."""
        seat = _decoded(leg, text)
        if not isinstance(seat, Seat):
            return False
        if way.asked is leg:
            if way.seat is not None and way.seat is not leg:
                self._say(way.seat, Detach())
            self._hub.carry_out(self._hub.terminals.seats.leave(leg.link.number))
            way.asked, way.asked_key = None, ""
            way.seat = leg
        elif way.seat is not leg:
            # It has gone elsewhere since it asked for this seat.
            self._say(leg, Detach())
            return False
        way.key = seat.rank.key
        return True

    def _is_refused_question(self, leg: Leg, text: bytes) -> bool:
        refusal = _decoded(leg, text)
        if not isinstance(refusal, Refusal) or refusal.request is None:
            return False
        remote = leg.questions.pop(refusal.request, None)
        if remote is not None:
            remote_answers.settle_all(self._hub, remote, refusal.text)
        return True

    def _rest(self, sender: str, message: LegRest) -> None:
        leg = self._legs.get(message.leg)
        if leg is not None and leg.broker == sender:
            leg.link.connection.rest(message.seconds)

    # ---------------------------------------------------------------------------------------------------------- its end

    def ended(self, sender: str, message: CloseLeg) -> None:
        """Close the terminal of a leg that its rank's broker has closed; a shutdown is news only to one with a seat."""
        leg = self._legs.get(message.leg)
        if leg is None or leg.broker != sender:
            return
        if message.code == CloseCode.SHUTDOWN:
            self._cut(leg, message.reason, tells=False)
        else:
            self._end(leg, tells=False)
            leg.link.connection.close(message.code, message.reason)

    def cut(self, broker: str) -> None:
        """End the legs to a broker: messages are lost, and terminals with a seat there come anew."""
        for leg in [one for one in self._legs.values() if one.broker == broker]:
            self._cut(leg, ITS_BROKER_CUT, tells=True)

    def moved(self, key: str) -> None:
        """Have terminals come anew that sit at a rank which another broker has by now, or this one."""
        rank = self._hub.ranks.registry.find(key)
        owner = "" if rank is None else rank.owner
        for way in tuple(self._ways.values()):
            leg = way.at
            if leg is not None and leg.broker != owner and key in (way.key, way.asked_key):
                leg.link.connection.close(CloseCode.SHUTDOWN, "its rank is at another broker now")

    def _cut(self, leg: Leg, why: str, *, tells: bool) -> None:
        way = self._ways[leg.link.number]
        is_seat = leg in (way.seat, way.asked)
        self._end(leg, tells=tells)
        if is_seat:
            # It dials again at once, and what it says then is as after any cut.
            leg.link.connection.close(CloseCode.SHUTDOWN, why)

    def _end(self, leg: Leg, *, tells: bool) -> None:
        """Forget a leg, and tell its broker so, unless that has ended it."""
        del self._legs[leg.number]
        if tells:
            self._send(leg, CloseLeg(leg=leg.number, by_terminal=True, code=CloseCode.DONE))
        for remote in leg.questions.values():
            remote_answers.settle_all(self._hub, remote, ITS_BROKER_CUT)
        way = self._ways.get(leg.link.number)
        if way is None:
            return
        del way.legs[leg.broker]
        if way.seat is leg:
            way.seat, way.key = None, ""
        if way.asked is leg:
            way.asked, way.asked_key = None, ""
        if not way.legs:
            del self._ways[leg.link.number]

    # ------------------------------------------------------------------------------------------------------------ inner

    def _leg(self, link: TerminalLink, broker: str) -> Leg | None:
        """Return a terminal's leg to a broker, opened if there is none; None if the broker can't be reached."""
        way = self._ways.get(link.number)
        if way is not None and (leg := way.legs.get(broker)) is not None:
            return leg
        bearer, number = link.bearer, next(self._numbers)
        opened = OpenLeg(
            leg=number,
            role=bearer.role,
            name=link.name or "?",
            token=bearer.name,
            job=bearer.job,
            digest=bearer.digest,
            peer=link.connection.peer,
        )
        if not self._cluster.send(broker, opened):
            return None
        leg = self._legs[number] = Leg(number, broker, link)
        self._ways.setdefault(link.number, _Way()).legs[broker] = leg
        return leg

    def _say(self, leg: Leg, said: Message | bytes) -> bool:
        frame = pack_data(said) if isinstance(said, bytes) else pack_message(said)
        return self._send(leg, LegSaid(leg=leg.number, frame=frame))

    def _send(self, leg: Leg, message: ClusterMessage) -> bool:
        return self._cluster.send(leg.broker, message)

    def _give_back(self, leg: Leg, *, missed: bool = False) -> None:
        if leg.link.connection.is_ready:
            leg.taken, leg.waiting = leg.taken + leg.waiting, 0
        if missed or leg.taken >= CREDIT_BYTES:
            self._send(leg, LegTaken(leg=leg.number, count=leg.taken, missed=missed))
            leg.taken = 0

    def _leave(self, way: _Way) -> None:
        way.seat = way.asked = None
        way.key = way.asked_key = ""


_SEAT, _REFUSAL, _NOTICE = (f'{{"type":"{name_of(kind)}"'.encode() for kind in (Seat, Refusal, Notice))
"""How the messages begin that are read on their way."""


def _decoded(leg: Leg, text: bytes) -> Message | None:
    try:
        return decode(text, Sender.BROKER)
    except PeerError as error:
        logger.warning("the broker %s is not understood: %s", printable(leg.broker), printable(error.reason))
        return None
