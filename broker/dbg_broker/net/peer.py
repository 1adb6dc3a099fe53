"""One connection: an asyncio protocol around the Sans-I/O core of websockets, so that it needs no task.

An error here ends only this connection. All methods must be called in the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import typing
from collections.abc import Callable, Hashable, Iterator
from typing import Protocol

from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import Event, State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from dbg_broker.home.tokens import Bearer, Role
from dbg_broker.net import tcp
from dbg_broker.net.http import HttpAnswer, Upgrade, response_of, upgrade_of
from dbg_broker.net.outbox import Outbox, Turns
from dbg_broker.net.websocket import PING, pack_data, pack_message
from dbg_broker.timers import Timers, TokenBucket
from dbg_dial.tcp import seconds_since_ack_of
from dbg_wire import limits, subprotocol
from dbg_wire.codec import LogForm
from dbg_wire.errors import printable
from dbg_wire.messages import Message

logger = logging.getLogger("dbg_broker")

SLICE_SECONDS = 0.001
"""Maximum processor time for newly arrived data of one connection, in seconds. The rest of the data is handled later,
as a task in the queue.
"""

SHORT_PIECE_BYTES = 1 * limits.KIB
"""Bytes that the library parses at once: 50 short messages or 150 pings, which take half a millisecond."""

LONG_PIECE_BYTES = 64 * limits.KIB
"""Bytes that the library parses at once in the middle of a long frame, such as bulk output."""

HEAD_END = b"\r\n\r\n"

WRITE_HIGH_WATER = 16 * limits.KIB
"""Maximum bytes in the transport; further frames wait in the outbox, where they can still be dropped."""

# The library logs many details about unauthenticated peers; the broker logs what matters, in one line.
_library_logger = logging.getLogger("dbg_broker.websockets")
_library_logger.setLevel(logging.CRITICAL + 1)


class Owner(Protocol):
    """Receiver of the messages of one WebSocket."""

    def received_text(self, text: str) -> None:
        """Handle a control message."""

    def received_data(self, data: bytes) -> None:
        """Handle terminal input or output."""

    def received_control(self) -> None:
        """Charge the peer for a frame that is not a message: a ping, a pong, or a part of a message."""

    def drained(self) -> None:
        """Send the data that did not fit before."""

    def overflowed(self) -> None:
        """Handle a control message that did not fit into the queue."""

    def lost(self) -> None:
        """Forget the connection."""


class PeerServer(Protocol):
    """The parts of a server that its peers use."""

    timers: Timers
    turns: Turns

    @property
    def admit(self) -> Callable[[Peer, Upgrade], Bearer | HttpAnswer]:
        """Function that returns the bearer if a request may become a WebSocket, or the HTTP answer otherwise."""

    def opened(self, peer: Peer, bearer: Bearer) -> Owner:
        """Return the owner of a new WebSocket."""

    def failed(self, peer: Peer, reason: str) -> None:
        """Record that a connection did not become a WebSocket."""

    def ended(self, peer: Peer) -> None:
        """Forget a connection."""


class Peer(asyncio.Protocol):
    """One connection, from its TLS handshake to its end."""

    # Slots save memory: there may be tens of thousands of connections.
    __slots__ = (
        "_abort_handle",
        "_events",
        "_has_ended",
        "_incoming",
        "_is_closing",
        "_is_paused",
        "_is_resting",
        "_is_scheduled",
        "_message",
        "_outbox",
        "_owner",
        "_piece",
        "_protocol",
        "_rate",
        "_server",
        "_transport",
        "heard_at",
        "number",
        "peer",
    )

    def __init__(self, number: int, peer: str, server: PeerServer) -> None:
        self.number = number
        self.peer = peer
        self.heard_at = server.timers.clock()
        """Time when the peer last sent something, or when reading resumes after a pause."""
        self._server = server
        self._owner: Owner | None = None
        self._rate: TokenBucket | None = None
        self._transport: asyncio.Transport | None = None
        self._protocol = ServerProtocol(
            subprotocols=[Subprotocol(subprotocol())], max_size=limits.MAX_FRAME_BYTES, logger=_library_logger
        )
        self._outbox = Outbox()
        self._incoming = bytearray()
        self._piece = SHORT_PIECE_BYTES
        """Number of bytes that the library parses at once."""
        self._events: list[Event] = []
        """Unhandled events of the library, the next one last."""
        self._message: tuple[Opcode, bytearray] | None = None
        """Kind and collected data of an incomplete message of several frames."""
        self._is_closing = self._is_resting = self._is_scheduled = self._is_paused = self._has_ended = False
        self._abort_handle: asyncio.TimerHandle | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the TLS handshake is complete, and the connection has not ended."""
        return self._transport is not None

    @property
    def is_open(self) -> bool:
        """Whether the peer has a WebSocket, which may be closing."""
        return self._owner is not None and not self._has_ended

    # ------------------------------------------------------------------------------------------- calls of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of a connection whose TLS handshake is complete."""
        self._transport = self._outbox.transport = typing.cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_WATER)
        tcp.share_tls_buffer(transport)
        if self._is_closing:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Receive bytes, and handle them for a slice of time."""
        self.heard_at = self._server.timers.clock()
        if self._is_closing and self._owner is None:
            # The peer got its answer: further bytes need no parsing.
            return
        if self._is_scheduled or self._is_resting or self._owner is None or len(data) > self._piece:
            self._incoming += data
            data = b""
        if len(self._incoming) > self._piece and self._has_work:
            # The data is too long to consist of keys. It waits in the queue of tasks, so that it does not delay keys.
            self._wait()
        elif not self._is_scheduled:
            self._work(data)

    def pause_writing(self) -> None:
        """Queue frames from now on."""
        self._outbox.is_paused = True

    def resume_writing(self) -> None:
        """Send the queued frames."""
        self._outbox.is_paused = False
        try:
            self._pump()
        except Exception as error:
            self._has_bug(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection after all received bytes are handled."""
        if self._abort_handle is not None:
            self._abort_handle.cancel()
        self._transport = self._outbox.transport = None
        if self._is_closing:
            self._drop_incoming()
        if not self._is_scheduled:
            self._work()

    # ------------------------------------------------------------------------------------------------------------ input

    @property
    def _has_work(self) -> bool:
        return bool(self._events or self._incoming) and (not self._is_resting or self._transport is None)

    def _work(self, data: bytes = b"") -> None:
        """Handle the received bytes and ``data`` for a slice of time; the rest waits in the queue of tasks."""
        spent = self._server.timers.spent
        ends = spent() + SLICE_SECONDS
        try:
            if data:
                self._take_apart(data)
            while self._has_work and not self._is_scheduled:
                self._handle_next()
                if self._has_work and spent() >= ends:
                    self._wait()
        except Exception as error:
            self._has_bug(error)
        self._settle()

    def _wait(self) -> None:
        """Handle the received bytes after the tasks that wait, and pause reading until then."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._server.turns.put(self._rest())
            self._settle()

    def _rest(self) -> Iterator[None]:
        """Handle the rest of the received bytes, step by step."""
        try:
            while self._has_work:
                self._handle_next()
                yield
        except Exception as error:
            self._has_bug(error)
        self._is_scheduled = False
        self._settle()

    def _settle(self) -> None:
        """Resume or pause reading, or end a connection whose bytes are all handled."""
        if self._transport is not None:
            self._read_or_pause(self._transport)
        elif not self._incoming and not self._events:
            self._end()

    def _handle_next(self) -> None:
        if not self._events:
            size = self._piece
            if self._owner is None and (head := self._incoming.find(HEAD_END)) >= 0:
                # Pass on only the request: otherwise the library would parse the bytes after the request as frames,
                # before the request is answered.
                size = head + len(HEAD_END)
            piece = bytes(self._incoming[:size])
            del self._incoming[:size]
            self._take_apart(piece)
        if self._events:
            self._handle(self._events.pop())
        if not self._events:
            self._write_answers()

    def _take_apart(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        self._events = self._protocol.events_received()[::-1]
        # If no frame is complete, the data is in the middle of a long one, and larger pieces are parsed.
        self._piece = SHORT_PIECE_BYTES if self._events else min(2 * self._piece, LONG_PIECE_BYTES)
        if not self._events:
            self._write_answers()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Request):
            self._handle_request(event)
        elif isinstance(event, Frame) and self._owner is not None and not self._is_closing:
            self._handle_frame(self._owner, event)

    def _handle_request(self, request: Request) -> None:
        # If the peer has sent more bytes before it got the answer, the library has taken them for frames, and has
        # failed the connection.
        if not self._has_state(State.CONNECTING) or self._protocol.parser_exc is not None:
            self._server.failed(self, "it did not wait for the answer to its request")
            self.abort()
            return
        upgrade = upgrade_of(request)
        decided = self._server.admit(self, upgrade)
        if isinstance(decided, HttpAnswer):
            self._respond(response_of(decided, with_body=upgrade.method != "HEAD"))
            return
        response = self._protocol.accept(request)
        self._respond(response)
        if self._has_state(State.OPEN):
            if self._transport is not None and decided.role is not Role.RANK:
                tcp.keep_little(self._transport.get_extra_info("socket"))
            self._owner = self._server.opened(self, decided)

    def _has_state(self, state: State) -> bool:
        return self._protocol.state is state

    def _respond(self, response: Response) -> None:
        self._protocol.send_response(response)
        self._write_answers()

    def _handle_frame(self, owner: Owner, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            return
        if frame.opcode in (Opcode.PING, Opcode.PONG):
            owner.received_control()
            return
        opcode: Opcode = frame.opcode
        data = bytes(frame.data)
        if self._message is not None or not frame.fin:
            opcode, parts = self._message or (opcode, bytearray())
            parts += frame.data
            self._message = None if frame.fin else (opcode, parts)
            if not frame.fin:
                owner.received_control()
                return
            data = bytes(parts)
        if opcode is Opcode.BINARY:
            owner.received_data(data)
        else:
            # An invalid byte becomes a character that no known name has, so the text is refused like any invalid
            # message.
            owner.received_text(data.decode("utf-8", "replace"))

    def _read_or_pause(self, transport: asyncio.Transport) -> None:
        is_paused = self._is_resting or self._is_scheduled
        if is_paused and not self._is_paused:
            transport.pause_reading()
        elif self._is_paused and not is_paused and not transport.is_closing():
            transport.resume_reading()
        self._is_paused = is_paused

    def _drop_incoming(self) -> None:
        self._incoming.clear()
        self._events.clear()

    def _has_bug(self, error: Exception) -> None:
        logger.error("connection from %s closed after an internal error", self.peer, exc_info=error)
        self._drop_incoming()
        self.abort()

    def _end(self) -> None:
        if self._has_ended:
            return
        if self._owner is None and not self._is_closing:
            self._server.failed(self, "it closed before sending a request")
        self._has_ended = self._is_closing = True
        self._outbox.clear()
        self._message = None
        # The library's objects refer to one another. The next two lines break this cycle: otherwise the objects would
        # stay in memory until the next garbage collection.
        self._protocol.parser.close()
        self._protocol.parser_exc = self._protocol.handshake_exc = None
        self._server.ended(self)
        if self._owner is not None:
            try:
                self._owner.lost()
            except Exception:
                logger.exception("internal error after the connection from %s ended", self.peer)

    # ----------------------------------------------------------------------------------------------------------- output

    @property
    def is_ready(self) -> bool:
        """Whether a frame can be sent now without waiting."""
        return self._is_writable and self._outbox.is_free

    @property
    def _is_writable(self) -> bool:
        return self.is_open and not self._is_closing

    def send_message(self, message: Message, instead_of: Hashable = None) -> bool:
        """Send a control message like :meth:`send_control`."""
        return self.send_packed(message, pack_message(message), instead_of)

    def send_packed(self, message: Message, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a message like :meth:`send_control`; ``frame`` is its encoded form."""
        logger.debug("connection %d: sent %s", self.number, LogForm(message))
        return self.send_control(frame, instead_of)

    def send_data(self, data: bytes, reserve: int) -> bool:
        """Send a frame of terminal input or output. Return False if fewer than ``reserve`` free bytes would remain.

        Bytes to a connection that is being closed are lost like bytes in transit: the terminal sends them again to the
        rank's next connection.
        """
        frame = pack_data(data)
        has_room = self.is_open and self._outbox.has_room(len(frame) + reserve)
        return self._is_closing or (has_room and self.send_control(frame))

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send or queue a control message; ``instead_of`` names a queued message that it replaces.

        Return False if it does not fit; the owner is notified, too.
        """
        if self._owner is None or not self._is_writable:
            return False
        if self._outbox.send_control(frame, instead_of):
            return True
        self._owner.overflowed()
        return False

    def send_output(self, frame: bytes, most: int | None = None) -> bool:
        """Send terminal output, or queue it if at most ``most`` bytes would wait. Return False if it was dropped."""
        return self._is_writable and self._outbox.send_output(frame, most)

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        """Close with a code and a sentence; queued frames are sent before, unless ``flush`` is False."""
        if self._transport is None or self._is_closing:
            return
        if not self._has_state(State.OPEN):
            self.abort()
            return
        if flush:
            self._outbox.flush()
        self._outbox.clear()
        self._is_closing = True
        self._protocol.send_close(code, printable(reason, 60).encode()[:120].decode("utf-8", "ignore"))
        self._write_answers()
        self._abort_soon()

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    def ping(self) -> None:
        """Ping the peer, unless the ping would have to wait."""
        if self.is_ready:
            self._outbox.write(PING)

    def limit(self, rate: TokenBucket) -> None:
        """Set the rate limit of received data, in bytes."""
        self._rate = rate

    def charge(self, cost: float) -> None:
        """Charge the cost of a message; beyond the peer's rate limit the connection is read later."""
        if self._rate is not None and (seconds := self._rate.spend(cost, self._server.timers.clock())) > 0:
            self.rest(seconds)

    def rest(self, seconds: float) -> None:
        """Read nothing for some seconds."""
        if self._transport is not None and not self._transport.is_closing() and not self._is_resting:
            self._is_resting = True
            self.heard_at = self._server.timers.clock() + seconds
            self._server.timers.schedule(seconds, self._resume_reading)
            self._read_or_pause(self._transport)

    def missed_output(self) -> bool:
        """Return True if output was dropped and the peer can receive a repaint. A later call returns False."""
        return self.is_ready and self._outbox.missed()

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that wait for the peer, in the outbox and in the transport."""
        return self._outbox.waiting_bytes

    def seconds_since_ack(self) -> float:
        """Return the time since the peer's kernel last sent something, in seconds, or 0 if it is unknown."""
        return 0.0 if self._transport is None else seconds_since_ack_of(self._transport.get_extra_info("socket"))

    # --------------------------------------------------------------------------------------------------------- internal

    def _pump(self) -> None:
        if self._is_closing or self._transport is None:
            return
        self._outbox.pump()
        if self._owner is not None and self.is_ready:
            self._owner.drained()

    def _write_answers(self) -> None:
        """Write the library's own answers: HTTP, pongs and closes."""
        pieces = self._protocol.data_to_send()
        if self._owner is None and self._protocol.handshake_exc is not None and not self._is_closing:
            self._server.failed(self, "its request is not a WebSocket handshake")
        elif self._protocol.parser_exc is not None and not self._is_closing:
            logger.info("connection from %s closed: %r", self.peer, type(self._protocol.parser_exc).__name__)
        transport = self._transport
        if not pieces or transport is None or transport.is_closing():
            return
        # All answers are written at once, so that a flood of pings costs one write.
        transport.write(b"".join(pieces))
        if b"" in pieces:
            self._end_output(transport)
        elif transport.get_write_buffer_size() > limits.MAX_VIEWER_BACKLOG:
            # The peer keeps sending pings and doesn't read the answers.
            self.abort()

    def _end_output(self, transport: asyncio.Transport) -> None:
        self._is_closing = True
        # A half-close lets the peer read the whole answer; a close with unread bytes would reset the connection.
        if transport.can_write_eof():
            with contextlib.suppress(OSError):
                transport.write_eof()
        else:
            transport.close()
        self._abort_soon()

    def _abort_soon(self) -> None:
        if self._abort_handle is None:
            handle = self._server.timers.schedule(limits.CLOSE_SECONDS, self.abort)
            self._abort_handle = typing.cast(asyncio.TimerHandle, handle)

    def _resume_reading(self) -> None:
        self._is_resting = False
        if not self._is_scheduled:
            self._work()
