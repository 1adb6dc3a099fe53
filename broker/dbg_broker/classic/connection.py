"""One connection of a stock debugger, which takes it for its terminal; the hub takes it for the link of a rank.

Every error here ends this connection and nothing else. All methods belong to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import logging
import os
import typing
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from dbg_broker.classic.callers import OURS, answer_to_noise, party_of, sentence
from dbg_broker.classic.session import ClassicSession, SessionOutput, Write
from dbg_broker.hub import departures, from_ranks
from dbg_broker.hub.links import RankLink
from dbg_broker.net import tcp
from dbg_broker.quotas import TokenBucket
from dbg_broker.timers import Timers
from dbg_dial.tcp import ask_peer, seconds_since_ack
from dbg_wire import limits
from dbg_wire.codec import Input, Output, decode_data, encode_data
from dbg_wire.messages import Goodbye, Message, Sender

if typing.TYPE_CHECKING:
    from dbg_broker.classic.sessions import StockSessions

logger = logging.getLogger("dbg_broker")

MAX_HEAD = 4 * limits.KIB
"""The first bytes, by which a debugger is told from another caller."""

SILENCE_SECONDS = 20.0
"""Seconds for a caller to show that it is a debugger: PuDB draws at the next line, once it is imported."""

READ_BYTES = 16 * limits.KIB
"""Bytes read at once and kept until their turns; further bytes stay in the kernel and hold the debugger back."""

SLICE_BYTES = 4 * limits.KIB
"""Bytes looked at in one turn: they take some milliseconds, for which a key of another session may have to wait."""

MICROSECONDS_PER_SECOND = 200_000
"""Processor time for all callers together, a fifth of a core: no caller has shown a token."""

BYTES_PER_SECOND = 4 * limits.MIB
"""Bytes of all callers together, a thousand screens."""


class CallerTurns:
    """Turns of callers with bytes: the caller that has used least is first, so that a flood delays no other caller.

    ``take`` looks at a slice of one caller's bytes, and returns its size and whether there is more. A turn is
    scheduled, never taken at once.
    """

    def __init__(self, take: Callable[[int], tuple[int, bool]], timers: Timers) -> None:
        self._take, self._timers = take, timers
        self._work = TokenBucket(timers.clock(), MICROSECONDS_PER_SECOND)
        self._bytes = TokenBucket(timers.clock(), BYTES_PER_SECOND)
        self._used: dict[int, float] = {}
        # (seconds used, whether it goes on, number): at equal use a caller that comes precedes one that goes on.
        self._waiting: list[tuple[float, bool, int]] = []
        # The least seconds used among waiting callers; a silent caller counts with these, so that it saves nothing up.
        self._level = 0.0
        self._is_scheduled = False

    def add(self, number: int) -> None:
        """Have a caller wait for a turn; it must not wait for one already."""
        heapq.heappush(self._waiting, (max(self._level, self._used.get(number, 0.0)), False, number))
        self._continue(0.0)

    def forget(self, number: int) -> None:
        """Forget a caller that has gone."""
        self._used.pop(number, None)
        self._waiting = [entry for entry in self._waiting if entry[2] != number]
        heapq.heapify(self._waiting)

    def _continue(self, seconds: float) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._timers.schedule(seconds, self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        if not self._waiting:
            return
        self._level, _, number = heapq.heappop(self._waiting)
        began = self._timers.spent()
        size, has_more = self._take(number)
        used = self._timers.spent() - began
        self._used[number] = self._level + used
        if has_more:
            heapq.heappush(self._waiting, (self._used[number], True, number))
        now = self._timers.clock()
        wait = max(self._work.spend(int(used * 1e6), now), self._bytes.spend(size, now))
        self._continue(wait)


@dataclass(slots=True)
class Call:
    """What is known of a caller beside its session."""

    came: float
    """When it came."""
    head: bytearray = field(default_factory=bytearray)
    """Its first bytes, until it is listed."""
    drawn: int = 0
    """Bytes that a debugger may have written."""
    host: str | None = None
    """What its host is called, once that is known."""
    listed_as: tuple[str, int] | None = None
    """The host and number by which it is listed."""


class ClassicConnection(asyncio.Protocol):
    """One connection, from accept or dialling to its end.

    ``listed`` gets the session's key when the hub lists the session, and None if the connection ends before.
    """

    def __init__(self, number: int, owner: StockSessions, session: ClassicSession) -> None:
        self.number = number
        self.peer = "?"
        self.call = Call(owner.loop.time())
        self.session = session
        self.link: RankLink | None = None
        self.listed: asyncio.Future[str | None] = owner.loop.create_future()
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._incoming = bytearray()
        self._silence: asyncio.TimerHandle | None = None
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closing = False

    # ------------------------------------------------------------------------------------------------- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the owner, and give the caller SILENCE_SECONDS."""
        self._transport = typing.cast(asyncio.Transport, transport)
        if (connected := transport.get_extra_info("socket")) is not None:
            ask_peer(connected)
        if hasattr(self._transport, "max_size"):
            self._transport.max_size = READ_BYTES
        address = transport.get_extra_info("peername")
        self.peer = tcp.peer_name(address)
        self._silence = self._owner.loop.call_later(SILENCE_SECONDS, self._give_up_silent)
        self._owner.joined(self, str(address[0]) if address else "?")

    def data_received(self, data: bytes) -> None:
        """Take bytes of the debugger, and read on when all of them have had their turns."""
        if self._is_closing or self._transport is None:
            return
        if not self._incoming:
            self._owner.turns.add(self.number)
        self._incoming += data
        self._transport.pause_reading()

    @functools.cached_property
    def party(self) -> str:
        """Return the caller's address or user, which is looked up only when there are many callers."""
        if self._transport is None:
            return "?"
        peer, own = (self._transport.get_extra_info(name) for name in ("peername", "sockname"))
        party, is_ours = party_of(peer, own, os.geteuid())
        return OURS if is_ours else party

    def take_turn(self) -> tuple[int, bool]:
        """Look at a slice of what came; return its size and whether there is more."""
        if self._is_closing or self._transport is None:
            self._incoming.clear()
            return 0, False
        data = bytes(self._incoming[:SLICE_BYTES])
        del self._incoming[:SLICE_BYTES]
        try:
            if self.session.is_proven or self._may_be_debugger(data):
                self.call.drawn += len(data)
                self.do(self.session.received(data, self._owner.loop.time()))
                self.list_if_ready()
        except Exception:
            logger.exception("the classic connection from %s is closed after an error of the broker", self.peer)
            self.abort()
        if not self._incoming and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        return len(data), bool(self._incoming)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the hub that the session has exited, with an unknown status."""
        self._is_closing, self._transport = True, None
        if self._silence is not None:
            self._silence.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if not self.listed.done():
            self.listed.set_result(None)
        try:
            if self.link is not None and self.link.rank is not None:
                from_ranks.receive(self._owner.hub, self.link, Goodbye(exit=None))
                self._owner.ended(self.link.rank.key)
            if self.link is not None:
                departures.connection_closed(self._owner.hub, self)
        except Exception:
            logger.exception("an error of the broker after the classic connection from %s ended", self.peer)
        self._owner.left(self)

    # ------------------------------------------------------------------------------------------------- the hub's side

    def send_message(self, message: Message, instead_of: Hashable = None) -> bool:
        """Take a message to an agent; the session answers in a later turn of the event loop, as an agent does."""
        self._owner.loop.call_soon(self._receive, message)
        return True

    def send_packed(self, message: Message, frame: bytes, instead_of: Hashable = None) -> bool:
        """Take a message as :meth:`send_message` does; its form on the wire is of no use here."""
        return self.send_message(message, instead_of)

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Drop what many ranks are told of others: a stock session never waits for other ranks."""
        return True

    is_ready = True
    """Whether a frame sent now would not wait."""

    def send_data(self, data: bytes, reserve: int) -> bool:
        """Take keys; return False if too many wait because the debugger doesn't read."""
        keys = decode_data(data, Sender.CLIENT)
        held = self._transport.get_write_buffer_size() if self._transport is not None else 0
        if not isinstance(keys, Input) or held + self._waiting_bytes + len(keys.data) > limits.MAX_INPUT_PENDING:
            return False
        self._waiting_bytes += len(keys.data)
        self._owner.loop.call_soon(self._receive, keys)
        return True

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        """Close without code and reason, which a debugger doesn't understand."""
        self.refuse(b"")

    def abort(self) -> None:
        """End the connection at once."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    def seconds_since_ack(self) -> float:
        """Return for how long the peer's kernel has said nothing."""
        return 0.0 if self._transport is None else seconds_since_ack(self._transport)

    # ------------------------------------------------------------------------------------------------ the owner's side

    def refuse(self, answer: bytes) -> None:
        """Write an answer and close."""
        if self._is_closing or self._transport is None:
            return
        self._is_closing = True
        self._transport.write(answer)
        self._transport.close()
        # A peer that reads nothing must not keep it open.
        self._owner.loop.call_later(limits.CLOSE_SECONDS, self.abort)

    def refuse_in_words(self, text: str) -> None:
        """Say why in a sentence, and close."""
        self.refuse(sentence(text))

    def list_if_ready(self, *, anyway: bool = False) -> None:
        """Have the hub list the session once its host is known, if it is proven or ``anyway`` is True."""
        if (
            self.link is None
            and self.call.host is not None
            and not self._is_closing
            and (self.session.is_proven or anyway)
        ):
            self.call.head.clear()
            key = self._owner.list_session(self, self.call.host)
            self.listed.set_result(key)

    def do(self, outputs: list[SessionOutput]) -> None:
        """Carry out what the session wants."""
        for output in outputs:
            if isinstance(output, Write):
                if self._transport is not None:
                    self._transport.write(output.data)
            elif self.link is None or self.link.rank is None:
                continue
            elif isinstance(output, Output):
                from_ranks.receive_output(self._owner.hub, self.link, encode_data(output))
            else:
                from_ranks.receive(self._owner.hub, self.link, output)
        self._schedule()

    # ---------------------------------------------------------------------------------------------------------- inner

    def _give_up_silent(self) -> None:
        if self.link is None and not self.session.is_proven:
            logger.info("the classic connection from %s is closed: it has shown no debugger", self.peer)
            self.refuse_in_words(f"no debugger has shown itself within {SILENCE_SECONDS:g} s")

    def _may_be_debugger(self, data: bytes) -> bool:
        if len(self.call.head) < MAX_HEAD:
            self.call.head += data[: MAX_HEAD - len(self.call.head)]
        answer = answer_to_noise(bytes(self.call.head))
        if answer is None:
            return True
        logger.info("the classic connection from %s is closed: it is no stock debugger", self.peer)
        self.refuse(answer)
        return False

    def _receive(self, item: Message | Input) -> None:
        if self._is_closing:
            return
        try:
            now = self._owner.loop.time()
            if isinstance(item, Input):
                self._waiting_bytes -= len(item.data)
                self.do(self.session.keys(item, now))
            else:
                self.do(self.session.message(item, now))
        except Exception:
            logger.exception("the classic connection from %s is closed after an error of the broker", self.peer)
            self.abort()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.session.due is not None and not self._is_closing:
            self._timer = self._owner.loop.call_at(self.session.due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self.do(self.session.tick(self._owner.loop.time()))
        except Exception:
            logger.exception("an error of the broker about the classic connection from %s", self.peer)
