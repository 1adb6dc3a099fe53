"""Transport of one accepted socket, with TLS or without: hands on what comes, and buffers what can't go out yet.

asyncio's own asks the kernel for names that nobody reads, takes a task and three turns of the loop to be made, and
shakes hands in the loop. Here OpenSSL reads and writes the socket itself, and a handshake is worked on by
:class:`~dbg_broker.net.handshakes.Handshakes`. The TLS of a connection is made when its first byte is there: most
connections of a flood send none.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import ssl
from typing import TYPE_CHECKING

from dbg_wire import limits

if TYPE_CHECKING:
    from dbg_broker.net.connection import PeerConnection

WRITE_HIGH_WATER = 16 * limits.KIB
"""Bytes in the transport at which further frames wait in the outbox, where they can still be dropped."""

WRITE_LOW_WATER = WRITE_HIGH_WATER // 4
"""Bytes in the transport at which they go on."""

UNREAD_BYTES = 64 * limits.KIB
"""Bytes waiting for their turn at which the socket is not read any more."""

RECORD_BYTES = 16 * limits.KIB
"""Bytes of the largest record of TLS; as long as they are as large, there is probably one more."""

WOULD_BLOCK = (BlockingIOError, InterruptedError)
"""What is raised if a socket has no bytes, or takes none."""


class Step(enum.Enum):
    """How far a step of a TLS handshake got."""

    READS = enum.auto()
    """The peer has to say more."""
    WRITES = enum.auto()
    """The kernel has to take more."""
    DONE = enum.auto()


TCP_ESTABLISHED = 1
"""The state of a TCP connection whose peer has ended nothing."""


def _has_gone(connected: socket.socket) -> bool:
    """Tell whether the peer has closed its end, behind bytes that nobody has read."""
    try:
        return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != bytes([TCP_ESTABLISHED])
    except OSError:
        return False


class SocketTransport:
    """Transport of an accepted socket; with a context, it speaks TLS as the server.

    All methods belong to the event loop's thread, except :meth:`shake`: while that runs, nothing else uses the socket.
    """

    __slots__ = (
        "_buffer",
        "_context",
        "_fd",
        "_has_ended_output",
        "_is_closing",
        "_is_lost",
        "_is_paused",
        "_is_reading",
        "_is_with_thread",
        "_loop",
        "_peer",
        "_step",
        "is_shaken",
        "socket",
    )

    def __init__(self, accepted: socket.socket, peer: PeerConnection, context: ssl.SSLContext | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.socket = accepted
        self._fd = accepted.fileno()
        self._peer = peer
        self._context = context
        self._buffer = bytearray()
        self._step: Step | Exception = Step.READS
        self._is_reading = False
        self._is_paused = False
        self._is_closing = False
        self._is_lost = False
        self._is_with_thread = False
        self._has_ended_output = False
        self.is_shaken = context is None
        """Whether bytes can be said: there is no TLS, or its handshake is complete."""
        self._read_on()

    # ------------------------------------------------------------------------------------------------------ handshake

    @property
    def is_shaking(self) -> bool:
        """Tell whether a TLS handshake has begun and is not complete."""
        return isinstance(self.socket, ssl.SSLSocket) and not self.is_shaken

    @property
    def is_answered(self) -> bool:
        """Tell whether the costly part of a TLS handshake is over: the peer has its answer, with a signature."""
        return isinstance(self.socket, ssl.SSLSocket) and self.socket.cipher() is not None

    def lend(self) -> bool:
        """Leave the socket to a thread, which calls :meth:`shake`; :meth:`take_back` follows. False if it has ended."""
        if self._is_closing or self._context is None:
            return False
        if _has_gone(self.socket):
            # It waited too long, or wanted this: the answer is worth a hundred looks.
            self.abort()
            return False
        try:
            if not isinstance(self.socket, ssl.SSLSocket):
                # Not by the thread: each call of the kernel there is a fight for the interpreter's lock.
                self.socket = self._context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        except OSError:
            self.abort()
            return False
        self._is_with_thread = True
        return True

    def shake(self) -> None:
        """Go on with the TLS handshake until the peer has to do something; it raises nothing."""
        if self._is_closing or not isinstance(self.socket, ssl.SSLSocket):
            return
        try:
            self.socket.do_handshake()
            self._step = Step.DONE
        except ssl.SSLWantReadError:
            self._step = Step.READS
        except ssl.SSLWantWriteError:
            self._step = Step.WRITES
        except Exception as error:
            self._step = error

    def take_back(self) -> None:
        """Go on after what :meth:`shake` came to."""
        self._is_with_thread = False
        if self._is_lost:
            self._lose()
        elif isinstance(self._step, Exception):
            self._fail(self._step)
        elif self._step is Step.WRITES:
            self._loop.add_writer(self._fd, self._writable)
        else:
            self.is_shaken = self._step is Step.DONE
            self._peer.is_owed_bytes()
            self._read_on()

    # ------------------------------------------------------------------------------------------------- what comes in

    def pause_reading(self) -> None:
        """Read nothing from the socket."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        """Read from the socket again."""
        if self.is_shaken and not self._is_closing:
            self._read_on()

    def _read_on(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            # By its number: asyncio would make a text of a socket, with the names of both ends.
            self._loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        if self.is_shaken:
            self._receive()
        elif self.is_shaking or self._has_first_byte():
            self.pause_reading()
            self._peer.handshake_waits(self)

    def _has_first_byte(self) -> bool:
        """Tell whether there is a byte; a peer that has gone without one is closed at once, and free is its place."""
        try:
            if self.socket.recv(1, socket.MSG_PEEK):
                return True
        except WOULD_BLOCK:
            return False
        except OSError:
            pass
        self.abort()
        return False

    def _receive(self) -> None:
        """Hand on what the peer said; the end of that ends the connection."""
        most = UNREAD_BYTES if self._context is None else RECORD_BYTES
        taken = 0
        try:
            while self._is_reading and taken < UNREAD_BYTES:
                if self._has_ended_output:
                    # What still comes isn't worth decrypting.
                    data = socket.socket.recv(self.socket, UNREAD_BYTES)
                    if data:
                        return
                else:
                    data = self.socket.recv(most)
                if not data:
                    self._peer.eof_received()
                    self.close()
                    return
                self._peer.data_received(data)
                taken += len(data)
                if len(data) < most:
                    return
        except (*WOULD_BLOCK, ssl.SSLWantReadError):
            return
        except OSError as error:
            # Among them SSLWantWriteError: a peer that asks for new keys without end, and doesn't read its answers.
            self._fail(error)

    # ------------------------------------------------------------------------------------------------ what goes out

    def write(self, data: bytes) -> None:
        """Write, or keep what the kernel doesn't take; nothing before the handshake is complete, nor after the end."""
        if self._is_closing or self._has_ended_output or not self.is_shaken:
            return
        if not self._buffer:
            sent = self._send(data)
            if sent == len(data) or self._is_closing:
                return
            data = data[sent:]
            self._loop.add_writer(self._fd, self._writable)
        self._buffer += data
        if len(self._buffer) > WRITE_HIGH_WATER and not self._is_paused:
            self._is_paused = True
            self._peer.pause_writing()

    @property
    def buffered(self) -> int:
        """Return how many bytes the kernel hasn't taken yet."""
        return len(self._buffer)

    @property
    def is_closing(self) -> bool:
        """Tell whether it is closed or about to be."""
        return self._is_closing

    def end_output(self) -> None:
        """End the output behind all that was written, which the peer is told; before a handshake, close."""
        if not self.is_shaken:
            self.close()
        elif not self._has_ended_output:
            self._has_ended_output = True
            if not self._buffer:
                self._say_end()

    def close(self) -> None:
        """Close when all that was written has gone."""
        if self._buffer and not self._is_closing:
            self._is_closing = True
            self.pause_reading()
        elif not self._buffer:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        self.pause_reading()
        if self._buffer or self._step is Step.WRITES:
            self._loop.remove_writer(self._fd)
        # Not cleared: a view of it may be in use.
        self._buffer = bytearray()
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            if not self._is_with_thread:
                self._loop.call_soon(self._lose)

    def _send(self, data: bytes | memoryview) -> int:
        """Return how many bytes the kernel took; after an error the connection is at its end."""
        sent = 0
        try:
            sent = self.socket.send(data)
            # TLS takes one record at a time.
            while sent < len(data):
                sent += self.socket.send(data[sent : sent + RECORD_BYTES])
        except (*WOULD_BLOCK, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            self._fail(error)
        return sent

    def _writable(self) -> None:
        if not self.is_shaken:
            self._loop.remove_writer(self._fd)
            self._peer.handshake_waits(self)
            return
        with memoryview(self._buffer) as view:
            sent = self._send(view)
        del self._buffer[:sent]
        if not self._buffer:
            self._loop.remove_writer(self._fd)
        if self._is_paused and len(self._buffer) <= WRITE_LOW_WATER:
            self._is_paused = False
            self._peer.resume_writing()
        if self._buffer or self._is_lost:
            return
        if self._is_closing:
            self.abort()
        elif self._has_ended_output:
            self._say_end()

    def _say_end(self) -> None:
        with contextlib.suppress(OSError):
            if isinstance(self.socket, ssl.SSLSocket):
                # The peer's own goodbye isn't there yet, and isn't waited for here.
                with contextlib.suppress(ssl.SSLError):
                    self.socket.unwrap()
            # Of the socket below TLS, whose own method would forget the TLS and speak plainly.
            socket.socket.shutdown(self.socket, socket.SHUT_WR)

    def _fail(self, error: Exception) -> None:
        self._peer.failed(error)
        self.abort()

    def _lose(self) -> None:
        self._peer.connection_lost()
        self.socket.close()
