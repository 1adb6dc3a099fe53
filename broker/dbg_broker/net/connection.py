"""One connection: bytes of a socket to requests and messages, and back.

The connection is websockets' Sans-I/O core on an ``asyncio.Protocol``, so it needs no task. Every error here ends this
connection and nothing else. All methods belong to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import typing
from collections.abc import Callable, Hashable

from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from dbg_broker.home.bearer import Role
from dbg_broker.net import tcp
from dbg_broker.net.frames import UNREAD_BYTES, Fragments, IncomingBytes, pack_data, pack_message, whole_frame
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
from dbg_broker.net.outbox import OutgoingFrames
from dbg_broker.net.reputation import network_of
from dbg_broker.net.tls import SecureTransport
from dbg_broker.net.turns import Account
from dbg_dial.tcp import seconds_since_ack
from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.log_form import LogForm
from dbg_wire.messages import Message

if typing.TYPE_CHECKING:
    from dbg_broker.net.connections import Connections

logger = logging.getLogger("dbg_broker")

# The library logs much about the bytes of strangers; this module logs what matters, in one line.
_library_logger = logging.getLogger("dbg_broker.websockets")
_library_logger.setLevel(logging.CRITICAL + 1)

WRITE_HIGH_WATER = 16 * limits.KIB
"""Bytes in the transport at which further frames wait in the outbox, where they can still be dropped."""


class PeerConnection(asyncio.Protocol):
    """One connection from accept to its end."""

    # There may be tens of thousands of connections.
    __slots__ = (
        "_abort_handle",
        "_fragments",
        "_frames",
        "_has_finished",
        "_has_unfinished",
        "_head",
        "_incoming",
        "_is_closing",
        "_is_decided_later",
        "_is_resting",
        "_loop",
        "_outgoing",
        "_owner",
        "_secure",
        "_transport",
        "_waits_its_turn",
        "_was_lost",
        "_websocket",
        "account",
        "cancel_start",
        "has_failed",
        "heard_at",
        "is_open",
        "network",
        "number",
        "peer",
        "was_made",
    )

    def __init__(
        self,
        number: int,
        peer: str,
        owner: Connections,
        loop: asyncio.AbstractEventLoop,
        secure: SecureTransport | None = None,
    ) -> None:
        self.number = number
        self.peer = peer
        self.network = network_of(tcp.host_of(peer))
        self.was_made = False
        self.has_failed = False
        """Whether the owner has counted it as a stranger's."""
        self.account: Account | None = None
        """Whose time its work takes, once that is known."""
        self.is_open = False
        self.heard_at = loop.time()
        """When the peer was heard last, or will be read again, on the loop's clock."""
        self.cancel_start: Callable[[], object] | None = None
        self._owner = owner
        self._loop = loop
        self._secure = secure
        self._transport: asyncio.Transport | None = None
        self._websocket: ServerProtocol | None = None
        self._head = bytearray()
        self._fragments = Fragments()
        self._frames: list[Frame] = []
        """Frames that have been read and are still to be taken, the next one last."""
        self._has_finished = False
        self._has_unfinished = False
        self._outgoing = OutgoingFrames(loop.time())
        self._is_closing = False
        self._is_decided_later = False
        self._is_resting = False
        self._abort_handle: asyncio.TimerHandle | None = None
        self._incoming = IncomingBytes(secure)
        self._waits_its_turn = False
        self._was_lost = False

    # ------------------------------------------------------------------------------------------------- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, and bound its buffer."""
        raw = typing.cast(asyncio.Transport, transport)
        if self._secure is not None:
            self._secure.run_on(raw)
        self._transport = self._secure or raw
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        if hasattr(raw, "max_size"):
            # asyncio would read 256 KiB at once, from each of a thousand connections that flood.
            raw.max_size = UNREAD_BYTES
        self._outgoing.transport = self._transport
        self.was_made = True

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket, to be read when it is this connection's turn."""
        self.heard_at = self._loop.time()
        self._incoming.take(data)
        self._ask_for_turn()

    def eof_received(self) -> None:
        """Take the end of the peer's bytes, which ends the connection."""
        if self._websocket is not None and not self._incoming and not self._frames:
            self._websocket.receive_eof()

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
                if not self._frames:
                    self._receive(self._incoming.piece())
                if self._frames and self.is_open == was_open:
                    self._handle_next()
                has_more = self._has_work
                # Most peers have said one thing; the clock is asked only if there is more.
                if self.is_open != was_open or (has_more and is_over()):
                    break
        except ssl.SSLError as error:
            self._incoming.clear()
            self._fail(f"no TLS ({error.reason or type(error).__name__})")
        except Exception:
            logger.exception("the connection from %s is closed after an error of the broker", self.peer)
            self._incoming.clear()
            self._frames.clear()
            self.abort()
        if self._was_lost and not self._incoming and not self._frames:
            self._end()
        self._mind_reading()
        if self.is_open and not was_open:
            # What came behind the request waits in the line of those whose token is known.
            if self._has_work:
                self._ask_for_turn()
            return False
        self._waits_its_turn = self._has_work
        return self._waits_its_turn

    @property
    def _has_work(self) -> bool:
        return bool(self._frames) or (bool(self._incoming) and (self._was_lost or not self._is_resting))

    def pause_writing(self) -> None:
        """Hold frames back."""
        self._outgoing.is_paused = True

    def resume_writing(self) -> None:
        """Go on with the frames that wait."""
        self._outgoing.is_paused = False
        try:
            self._pump()
        except Exception:
            logger.exception("the connection from %s is closed after an error of the broker", self.peer)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection when all bytes that came before have been read."""
        if self._abort_handle is not None:
            self._abort_handle.cancel()
        if self._transport is not None:
            # Python 3.10 takes a TLS transport for open until this is called.
            self._transport.close()
        self._transport = self._outgoing.transport = None
        self._was_lost = True
        if self._is_closing:
            self._incoming.clear()
            self._frames.clear()
        if not self._incoming and not self._frames:
            self._end()
        else:
            self._ask_for_turn()

    def _end(self) -> None:
        if not self._is_closing and not self.is_open:
            is_shaken = self._secure is None or self._secure.is_shaken
            self._note_failure("it ended before a request" if is_shaken else "it ended during the TLS handshake")
        self._is_closing = True
        self.is_open = False
        self._outgoing.clear()
        self._fragments.clear()
        if self._websocket is not None:
            # The library's objects refer to one another, so the buffer would stay until garbage collection.
            self._websocket.reader.buffer.clear()
            self._websocket.parser.close()
        try:
            self._owner.handlers.lost(self)
        except Exception:
            logger.exception("an error of the broker after the connection from %s ended", self.peer)

    def _ask_for_turn(self) -> None:
        if not self._waits_its_turn and (self._was_lost or not self._is_resting):
            self._waits_its_turn = self._owner.has_bytes(self)
        if self._waits_its_turn or self._is_resting:
            self._mind_reading()

    def _mind_reading(self) -> None:
        """Read from the socket unless this connection rests, or enough waits to be read."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_resting or self._incoming.is_full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # --------------------------------------------------------------------------------------------------- what comes in

    def _receive(self, data: bytes) -> None:
        if self._secure is not None and self._secure.has_ended:
            self._take_tls_end()
        if not data or self._is_decided_later or (self._is_closing and not self.is_open):
            # A request that is answered later is the last one: more behind it would cost as much again.
            return
        if self._websocket is None:
            self._head += data
            self._receive_head()
        elif (frame := self._whole_frame(self._websocket, data)) is not None:
            self._frames = [frame]
        else:
            self._websocket.receive_data(data)
            self._frames = [event for event in self._websocket.events_received() if isinstance(event, Frame)]
            self._frames.reverse()
            if not self._frames:
                self._end_piece(self._websocket)

    def _whole_frame(self, websocket: ServerProtocol, data: bytes) -> Frame | None:
        """Return the frame that these bytes are, if the library has nothing to add: it holds none, nor part of one."""
        if self._fragments.is_begun or websocket.reader.buffer or websocket.state is not State.OPEN:
            return None
        return whole_frame(data)

    def _take_tls_end(self) -> None:
        """Take the end of a TLS peer's bytes, which may leave its socket open."""
        if self._websocket is not None:
            self._websocket.receive_eof()
        if self._transport is not None:
            self._transport.close()

    def _receive_head(self) -> None:
        try:
            head = read_head(bytes(self._head))
        except NoRequest as error:
            self._fail(str(error))
            return
        if head is None:
            return
        if head.method == "GET":
            self._head.clear()
            self._shake_hands(head.lines)
            if head.rest:
                self._receive(head.rest)
        else:
            answer = self._owner.handlers.admit(self, Upgrade(head.target, None, None, (), head.method))
            self._is_decided_later = answer is None
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
            self._is_decided_later = True
            return
        switched = switching(request)
        if isinstance(switched, HttpAnswer):
            self.respond(switched)
            return
        self._outgoing.write(switched)
        self._websocket = ServerProtocol(state=State.OPEN, max_size=limits.MAX_FRAME_BYTES, logger=_library_logger)
        self.is_open = True
        if self._transport is not None:
            tcp.tune(self._transport, to_terminal=answer.role is not Role.RANK)
        self._owner.opened(self, answer)

    def _handle_next(self) -> None:
        frame = self._frames.pop()
        if self._is_closing:
            self._frames.clear()
        else:
            self._handle_frame(frame)
        if not self._frames and self._websocket is not None:
            self._end_piece(self._websocket)

    def _end_piece(self, websocket: ServerProtocol) -> None:
        if websocket.parser_exc is not None and not self._is_closing:
            logger.info("the connection from %s is closed: %s", self.peer, type(websocket.parser_exc).__name__)
        self._write_library_frames(websocket)
        self._note_unfinished(websocket)

    def _note_unfinished(self, websocket: ServerProtocol) -> None:
        size = len(websocket.reader.buffer) + len(self._fragments)
        if size or self._has_unfinished:
            self._has_unfinished = size > 0
            self._owner.note_unfinished(self, size, is_new=self._has_finished)
        self._has_finished = False

    def _handle_frame(self, frame: Frame) -> None:
        whole = self._fragments.take(frame)
        if whole is not None:
            self._handle_message(*whole)
        if not frame.fin or frame.opcode in (Opcode.PING, Opcode.PONG):
            self._owner.handlers.frame(self)

    def _handle_message(self, opcode: Opcode, payload: bytes) -> None:
        self._has_finished = True
        if opcode is Opcode.BINARY:
            self._owner.handlers.data(self, payload)
        else:
            # A wrong byte becomes a character that no known name has, so the text is refused like any wrong message.
            self._owner.handlers.text(self, payload.decode("utf-8", "replace"))

    # ---------------------------------------------------------------------------------------------------- what goes out

    @property
    def is_ahead(self) -> bool:
        """Tell whether a TLS handshake is complete."""
        return self._secure is not None and self._secure.is_shaken

    @property
    def is_ready(self) -> bool:
        """Tell whether a frame sent now would not wait."""
        return self.is_open and not self._is_closing and self._outgoing.is_free

    def send_message(self, message: Message, instead_of: Hashable = None) -> bool:
        """Send a control message as :meth:`send_control` does."""
        return self.send_packed(message, pack_message(message), instead_of)

    def send_packed(self, message: Message, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a message of which ``frame`` is the form on the wire, as :meth:`send_control` does."""
        logger.debug("connection %d is told %s", self.number, LogForm(message))
        return self.send_control(frame, instead_of)

    def send_data(self, data: bytes, reserve: int) -> bool:
        """Send a frame of terminal bytes unless less than ``reserve`` bytes of room would be left.

        Tell whether it was taken.
        """
        frame = pack_data(data)
        return self.is_open and self._outgoing.has_room(len(frame) + reserve) and self.send_control(frame)

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a control message, or let it wait its turn; it replaces a waiting one of the same name.

        Return False if it has no room; the owner is told, too.
        """
        if not self.is_open or self._is_closing:
            return False
        if self._outgoing.send_control(frame, instead_of):
            return True
        self._owner.handlers.overflowed(self)
        return False

    def send_output(self, frame: bytes, most: int | None = None) -> bool:
        """Send terminal output, or let it wait beside no more than ``most`` bytes; False if it was dropped."""
        return self.is_open and not self._is_closing and self._outgoing.send_output(frame, most)

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        """Close with a code and a sentence; what waits goes out before, unless ``flush`` is False."""
        if self._transport is None or self._is_closing:
            return
        websocket = self._websocket
        if websocket is None or websocket.state is not State.OPEN:
            self.abort()
            return
        if flush:
            self._outgoing.flush()
        self._outgoing.clear()
        self._is_closing = True
        websocket.send_close(code, printable(reason, 60).encode()[:120].decode("utf-8", "ignore"))
        self._write_library_frames(websocket)
        self._abort_soon()

    def abort(self) -> None:
        """End the connection at once."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()
        elif self.cancel_start is not None:
            self.cancel_start()

    def ping(self) -> None:
        """Ask the peer for a sign of life, unless the ping would have to wait."""
        if self.is_ready and self._websocket is not None:
            self._websocket.send_ping(b"")
            self._write_library_frames(self._websocket)

    def rest(self, seconds: float) -> None:
        """Read nothing for a while."""
        if self._transport is not None and not self._transport.is_closing() and not self._is_resting:
            self._is_resting = True
            self.heard_at = self._loop.time() + seconds
            self._loop.call_later(seconds, self._resume_reading)
            self._mind_reading()

    def missed_output(self) -> bool:
        """Tell, once, that output was dropped and the peer can take a repaint."""
        return self.is_ready and self._outgoing.missed()

    def is_stalled(self, now: float, seconds: float) -> bool:
        """Tell whether the peer has taken nothing for ``seconds`` although things wait."""
        return not self._is_closing and self._outgoing.is_stalled(now, seconds)

    @property
    def waiting_bytes(self) -> int:
        """Return how many bytes wait for the peer, in the outbox and in the transport."""
        return self._outgoing.waiting_bytes

    def seconds_since_ack(self) -> float:
        """Return for how long the peer's kernel has said nothing; 0 if that can't be told."""
        return 0.0 if self._transport is None else seconds_since_ack(self._transport)

    # ---------------------------------------------------------------------------------------------------------- inner

    def _pump(self) -> None:
        if self._is_closing or self._transport is None:
            return
        self._outgoing.pump()
        if self.is_ready:
            self._owner.handlers.drained(self)

    def _write_library_frames(self, websocket: ServerProtocol) -> None:
        """Write what the library answers by itself: pongs and closes."""
        transport = self._transport
        if transport is None:
            return
        if self._outgoing.write_to_end(websocket.data_to_send()):
            self._end_output(transport)
        if not transport.is_closing() and self._outgoing.held > limits.MAX_VIEWER_BACKLOG:
            # The peer sends pings without end and doesn't read the answers.
            self.abort()

    def respond(self, answer: HttpAnswer, *, with_body: bool = True) -> None:
        """Answer the request, and end the connection."""
        if self._transport is None:
            return
        self._outgoing.write(answer_bytes(answer, with_body=with_body))
        self._end_output(self._transport)

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
            self._abort_handle = self._loop.call_later(limits.CLOSE_SECONDS, self.abort)

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
