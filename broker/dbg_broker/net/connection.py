"""One connection: bytes of a socket to requests and messages, and back.

The connection is websockets' Sans-I/O core on a transport of its own, so it needs no task. Every error here ends this
connection and nothing else. All methods belong to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import typing
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from websockets.frames import Frame, Opcode

from dbg_broker.home.bearer import Role
from dbg_broker.net import tcp
from dbg_broker.net.http import (
    HttpAnswer,
    NoRequest,
    Upgrade,
    answer_bytes,
    read_head,
    read_request,
    switching,
    upgrade_of,
)
from dbg_broker.net.outbox import Outbox
from dbg_broker.net.reputation import network_of
from dbg_broker.net.transport import UNREAD_BYTES, SocketTransport
from dbg_broker.net.turns import Account
from dbg_broker.net.websocket import PIECE_BYTES, PING, WebSocket, pack_data, pack_message
from dbg_dial.tcp import seconds_since_ack_of
from dbg_wire import limits
from dbg_wire.codec import LogForm
from dbg_wire.errors import printable
from dbg_wire.messages import Message

if typing.TYPE_CHECKING:
    from dbg_broker.net.connections import Connections

logger = logging.getLogger("dbg_broker")


@dataclass(slots=True)
class Stranger:
    """What counts of a connection until its token is known."""

    network: str
    """By what its address is counted."""
    head: bytearray = field(default_factory=bytearray)
    """The begin of its request."""
    is_decided_later: bool = False
    """Whether its request is answered when the broker has read or waited for something."""
    has_failed: bool = False
    """Whether it was counted as one that failed."""


class PeerConnection:
    """One connection from accept to its end; whoever makes it gives it its transport."""

    # There may be tens of thousands of connections.
    __slots__ = (
        "_abort_handle",
        "_incoming",
        "_is_closing",
        "_is_resting",
        "_outbox",
        "_owner",
        "_transport",
        "_waits_its_turn",
        "_websocket",
        "account",
        "heard_at",
        "is_open",
        "number",
        "peer",
        "stranger",
    )

    def __init__(self, number: int, peer: str, owner: Connections) -> None:
        now = owner.timers.clock()
        self.number = number
        self.peer = peer
        self.stranger = Stranger(network_of(tcp.host_of(peer)))
        self.account: Account | None = None
        """Whose time its work takes, once that is known."""
        self.is_open = False
        self.heard_at = now
        """When the peer was heard last, or will be read again."""
        self._owner = owner
        self._transport: SocketTransport | None = None
        self._websocket: WebSocket | None = None
        self._outbox = Outbox()
        self._is_closing = False
        self._is_resting = False
        self._abort_handle: asyncio.TimerHandle | None = None
        self._incoming = bytearray()
        self._waits_its_turn = False

    @property
    def network(self) -> str:
        """Return by what its address is counted."""
        return self.stranger.network

    # ------------------------------------------------------------------------------------------- the transport's side

    def connection_made(self, transport: SocketTransport) -> None:
        """Take the transport."""
        self._transport = self._outbox.transport = transport

    def handshake_waits(self, transport: SocketTransport) -> None:
        """Have a TLS handshake go on when it is its turn."""
        self._owner.shakes_hands(self, transport)

    def is_owed_bytes(self) -> None:
        """Note that a step of the TLS handshake is over, and the peer has to say something."""
        self._owner.is_owed(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket, to be read when it is this connection's turn."""
        self.heard_at = self._owner.timers.clock()
        self._incoming += data
        self._ask_for_turn()

    def eof_received(self) -> None:
        """Take the end of the peer's bytes, which ends the connection."""
        if self._websocket is not None and not self._incoming and not self._websocket.frames:
            self._websocket.receive_eof()

    def failed(self, error: Exception) -> None:
        """Note an error of the transport, which ends after it."""
        if isinstance(error, ssl.SSLError) and not isinstance(error, (ssl.SSLEOFError, ssl.SSLSyscallError)):
            self._note_failure(f"no TLS ({error.reason or type(error).__name__})")
        elif not isinstance(error, OSError):
            self._has_bug(error)

    def work(self, is_over: Callable[[], bool]) -> bool:
        """Take what came until the slice is over, at least one frame; return whether there is more to take now.

        An error, of the broker or of the peer, ends the connection and is not raised.
        """
        self._waits_its_turn = False
        was_open = self.is_open
        if self._is_closing and not self.is_open:
            # It was answered: what still comes is not worth decrypting.
            self._incoming.clear()
        try:
            has_more = self._has_work
            while has_more:
                websocket = self._websocket
                if websocket is None or not websocket.frames:
                    self._receive(self._next_piece())
                    websocket = self._websocket
                if websocket is not None and websocket.frames and self.is_open == was_open:
                    self._handle_next(websocket)
                has_more = self._has_work
                # Most peers have said one thing; the clock is asked only if there is more.
                if self.is_open != was_open or (has_more and is_over()):
                    break
        except Exception as error:
            self._has_bug(error)
            self._drop_incoming()
            self.abort()
        if self._transport is None and not self._incoming and not self._has_frames:
            self._end()
        self._mind_reading()
        if self.is_open and not was_open:
            # What came behind the request waits in the line of those whose token is known.
            if self._has_work:
                self._ask_for_turn()
            else:
                self._owner.is_owed(self)
            return False
        self._waits_its_turn = self._has_work
        if self.account is None and not self._waits_its_turn and not self._is_closing:
            self._owner.is_owed(self)
        return self._waits_its_turn

    @property
    def _has_work(self) -> bool:
        if self._websocket is not None and self._websocket.frames:
            return True
        return bool(self._incoming) and (not self._is_resting or self._transport is None)

    @property
    def _has_frames(self) -> bool:
        return self._websocket is not None and bool(self._websocket.frames)

    def _drop_incoming(self) -> None:
        self._incoming.clear()
        if self._websocket is not None:
            self._websocket.frames.clear()

    def pause_writing(self) -> None:
        """Hold frames back."""
        self._outbox.is_paused = True

    def resume_writing(self) -> None:
        """Go on with the frames that wait."""
        self._outbox.is_paused = False
        try:
            self._pump()
        except Exception as error:
            self._has_bug(error)
            self.abort()

    def connection_lost(self) -> None:
        """End the connection when all bytes that came before have been read."""
        if self._abort_handle is not None:
            self._abort_handle.cancel()
        if self._transport is not None and self._transport.is_shaking and not self._is_closing:
            self._note_failure("it ended during the TLS handshake")
        self._transport = self._outbox.transport = None
        if self._is_closing:
            self._drop_incoming()
        if not self._incoming and not self._has_frames:
            self._end()
        else:
            self._ask_for_turn()

    def _has_bug(self, error: Exception) -> None:
        logger.error("the connection from %s is closed after an error of the broker", self.peer, exc_info=error)

    def _end(self) -> None:
        if not self._is_closing and not self.is_open:
            self._note_failure("it ended before a request")
        self._is_closing = True
        self.is_open = False
        self._outbox.clear()
        if self._websocket is not None:
            self._websocket.forget()
        try:
            self._owner.handlers.lost(self)
        except Exception:
            logger.exception("an error of the broker after the connection from %s ended", self.peer)

    def _ask_for_turn(self) -> None:
        if not self._waits_its_turn and (not self._is_resting or self._transport is None):
            self._waits_its_turn = self._owner.has_bytes(self)
        if self._waits_its_turn or self._is_resting:
            self._mind_reading()

    def _mind_reading(self) -> None:
        """Read from the socket unless this connection rests, or enough waits to be read."""
        if self._transport is None:
            return
        if self._is_resting or len(self._incoming) >= UNREAD_BYTES:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # --------------------------------------------------------------------------------------------------- what comes in

    def _next_piece(self) -> bytes:
        piece = bytes(self._incoming[:PIECE_BYTES])
        del self._incoming[:PIECE_BYTES]
        return piece

    def _receive(self, data: bytes) -> None:
        if self.stranger.is_decided_later or (self._is_closing and not self.is_open):
            # A request that is answered later is the last one: more behind it would cost as much again.
            return
        if self._websocket is None:
            self.stranger.head += data
            self._receive_head()
        elif not self._websocket.receive(data):
            self._end_piece(self._websocket)

    def _receive_head(self) -> None:
        try:
            head = read_head(bytes(self.stranger.head))
        except NoRequest as error:
            self._fail(str(error))
            return
        if head is None:
            return
        if head.method == "GET":
            self.stranger.head.clear()
            self._shake_hands(head.lines)
            if head.rest:
                self._receive(head.rest)
        else:
            answer = self._owner.handlers.admit(self, Upgrade(head.target, None, None, (), head.method))
            self.stranger.is_decided_later = answer is None
            if isinstance(answer, HttpAnswer):
                self.respond(answer, with_body=head.method != "HEAD")

    def _shake_hands(self, head: bytes) -> None:
        try:
            request = read_request(head)
        except NoRequest as error:
            self._fail(str(error))
            return
        answer = self._owner.handlers.admit(self, upgrade_of(request))
        if isinstance(answer, HttpAnswer):
            self.respond(answer)
            return
        if answer is None:
            self.stranger.is_decided_later = True
            return
        switched = switching(request)
        if isinstance(switched, HttpAnswer):
            self.respond(switched)
            return
        self._outbox.write(switched)
        self._websocket = WebSocket()
        self.is_open = True
        if self._transport is not None and answer.role is not Role.RANK:
            tcp.keep_little(self._transport.socket)
        self._owner.opened(self, answer)

    def _handle_next(self, websocket: WebSocket) -> None:
        frame = websocket.frames.pop()
        if self._is_closing:
            websocket.frames.clear()
        else:
            self._handle_frame(websocket, frame)
        if not websocket.frames:
            self._end_piece(websocket)

    def _end_piece(self, websocket: WebSocket) -> None:
        if websocket.breach and not self._is_closing:
            logger.info("the connection from %s is closed: %s", self.peer, websocket.breach)
        self._write_answers(websocket)
        if (kept := websocket.unfinished()) is not None:
            size, is_new = kept
            self._owner.note_unfinished(self, size, is_new=is_new)

    def _handle_frame(self, websocket: WebSocket, frame: Frame) -> None:
        whole = websocket.message(frame)
        if whole is not None:
            self._handle_message(*whole)
        if not frame.fin or frame.opcode in (Opcode.PING, Opcode.PONG):
            self._owner.handlers.frame(self)

    def _handle_message(self, opcode: Opcode, payload: bytes) -> None:
        if opcode is Opcode.BINARY:
            self._owner.handlers.data(self, payload)
        else:
            # A wrong byte becomes a character that no known name has, so the text is refused like any wrong message.
            self._owner.handlers.text(self, payload.decode("utf-8", "replace"))

    # ---------------------------------------------------------------------------------------------------- what goes out

    @property
    def is_ready(self) -> bool:
        """Tell whether a frame sent now would not wait."""
        return self.is_open and not self._is_closing and self._outbox.is_free

    def send_message(self, message: Message, instead_of: Hashable = None) -> bool:
        """Send a control message as :meth:`send_control` does."""
        return self.send_packed(message, pack_message(message), instead_of)

    def send_packed(self, message: Message, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a message of which ``frame`` is the form on the wire, as :meth:`send_control` does."""
        logger.debug("connection %d is told %s", self.number, LogForm(message))
        return self.send_control(frame, instead_of)

    def send_data(self, data: bytes, reserve: int) -> bool:
        """Send a frame of terminal bytes unless less than ``reserve`` bytes of room would be left.

        Return whether it was taken. Bytes to a connection that is being closed are lost like those on their way: the
        terminal sends them again to the rank's next connection.
        """
        frame = pack_data(data)
        has_room = self.is_open and self._outbox.has_room(len(frame) + reserve)
        return self._is_closing or (has_room and self.send_control(frame))

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a control message, or let it wait its turn; it replaces a waiting one of the same name.

        Return False if it has no room; the owner is told, too.
        """
        if not self.is_open or self._is_closing:
            return False
        if self._outbox.send_control(frame, instead_of):
            return True
        self._owner.handlers.overflowed(self)
        return False

    def send_output(self, frame: bytes, most: int | None = None) -> bool:
        """Send terminal output, or let it wait beside no more than ``most`` bytes; False if it was dropped."""
        return self.is_open and not self._is_closing and self._outbox.send_output(frame, most)

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        """Close with a code and a sentence; what waits goes out before, unless ``flush`` is False."""
        if self._transport is None or self._is_closing:
            return
        websocket = self._websocket
        if websocket is None or not websocket.is_open:
            self.abort()
            return
        if flush:
            self._outbox.flush()
        self._outbox.clear()
        self._is_closing = True
        websocket.close(code, printable(reason, 60).encode()[:120].decode("utf-8", "ignore"))
        self._write_answers(websocket)
        self._abort_soon()

    def abort(self) -> None:
        """End the connection at once."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    def ping(self) -> None:
        """Ask the peer for a sign of life, unless the ping would have to wait."""
        if self.is_ready and self._websocket is not None:
            self._outbox.write(PING)

    def rest(self, seconds: float) -> None:
        """Read nothing for a while."""
        if self._transport is not None and not self._transport.is_closing and not self._is_resting:
            self._is_resting = True
            self.heard_at = self._owner.timers.clock() + seconds
            self._owner.timers.schedule(seconds, self._resume_reading)
            self._mind_reading()

    def missed_output(self) -> bool:
        """Tell, once, that output was dropped and the peer can take a repaint."""
        return self.is_ready and self._outbox.missed()

    @property
    def waiting_bytes(self) -> int:
        """Return how many bytes wait for the peer, in the outbox and in the transport."""
        return self._outbox.waiting_bytes

    def seconds_since_ack(self) -> float:
        """Return for how long the peer's kernel has said nothing; 0 if that can't be told."""
        return 0.0 if self._transport is None else seconds_since_ack_of(self._transport.socket)

    # ---------------------------------------------------------------------------------------------------------- inner

    def _pump(self) -> None:
        if self._is_closing or self._transport is None:
            return
        self._outbox.pump()
        if self.is_ready:
            self._owner.handlers.drained(self)

    def _write_answers(self, websocket: WebSocket) -> None:
        """Write what a WebSocket answers by itself: pongs and closes."""
        transport = self._transport
        if transport is None:
            return
        if self._outbox.write_to_end(websocket.data_to_send()):
            self._end_output(transport)
        if not transport.is_closing and self._outbox.held > limits.MAX_VIEWER_BACKLOG:
            # The peer sends pings without end and doesn't read the answers.
            self.abort()

    def respond(self, answer: HttpAnswer, *, with_body: bool = True) -> None:
        """Answer the request, and end the connection."""
        if self._transport is None:
            return
        self._outbox.write(answer_bytes(answer, with_body=with_body))
        self._end_output(self._transport)

    def _end_output(self, transport: SocketTransport) -> None:
        self._is_closing = True
        # A half-close lets the peer read the whole answer; a close with unread bytes would reset the connection.
        transport.end_output()
        self._abort_soon()

    def _abort_soon(self) -> None:
        if self._abort_handle is None:
            handle = self._owner.timers.schedule(limits.CLOSE_SECONDS, self.abort)
            self._abort_handle = typing.cast(asyncio.TimerHandle, handle)

    def _fail(self, reason: str) -> None:
        self._note_failure(reason)
        self.abort()

    def _note_failure(self, reason: str) -> None:
        self._is_closing = True
        self._owner.failed(self, reason)

    def _resume_reading(self) -> None:
        self._is_resting = False
        if self._incoming:
            self._ask_for_turn()
        else:
            self._mind_reading()
