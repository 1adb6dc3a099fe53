"""A foreign server at the broker's address that notes all bytes sent there."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from types import TracebackType
from typing import Literal

import trustme

from tests.support.time_unit import seconds

Kind = Literal["closes", "http", "tls"]
"""``closes`` says nothing and hangs up, ``http`` agrees to everything in plain HTTP, ``tls`` does so behind its own
certificate."""

AGREES = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"

CHUNK = 65536

TLS_ALERT, TLS_HANDSHAKE = 21, 22
CLIENT_HELLO = 1


class Impostor:
    """A server on ``port`` of loopback (0: a free one) until :meth:`close`; any thread may call any method."""

    def __init__(self, port: int, kind: Kind) -> None:
        self._kind = kind
        self._changed = threading.Condition()
        self._heard: list[bytes] = []
        self._open: set[socket.socket] = set()
        self._accepted: list[object] = []
        self._context: ssl.SSLContext | None = None
        if kind == "tls":
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            trustme.CA().issue_cert("localhost").configure_cert(self._context)
        # create_server sets SO_REUSEADDR, so old connections that linger on the port don't matter.
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, name="impostor", daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Impostor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def heard(self) -> list[bytes]:
        """Return the bytes that came on each connection that has ended; for ``tls``, the decrypted ones."""
        with self._changed:
            return list(self._heard)

    def wait_for_more(self, count: int) -> None:
        """Wait until ``count`` more connections have come and ended than before this call."""
        with self._changed:
            wanted = len(self._heard) + count
            if not self._changed.wait_for(lambda: len(self._heard) >= wanted, seconds(30)):
                raise AssertionError(f"only {count - wanted + len(self._heard)} of {count} more connections came")

    def wait_for_all(self) -> None:
        """Wait until each connection that was made and closed before this call has been read to its end."""
        # The thread accepts connections in the order in which they came, so all earlier ones are accepted by then.
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            name = last.getsockname()
            with self._changed:
                if not self._changed.wait_for(lambda: name in self._accepted, seconds(30)):
                    raise AssertionError("the impostor takes nobody")
        with self._changed:
            if not self._changed.wait_for(lambda: not self._open, seconds(30)):
                raise AssertionError("a connection to the impostor is still open")
            self._heard.remove(b"")

    def close(self) -> None:
        """End all connections and threads, and release the port."""
        # Closing alone would leave the thread in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        with self._changed:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, name = self._listener.accept()
            except OSError:
                return
            if self._context is not None:
                # The handshake takes place in the connection's own thread, where close() can end it.
                connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            with self._changed:
                self._open.add(connection)
                self._accepted.append(name)
                self._changed.notify_all()
            thread = threading.Thread(target=self._serve, args=(connection,), name="impostor", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        heard = bytearray()
        with connection, contextlib.suppress(OSError):
            self._listen_to(connection, heard)
        with self._changed:
            self._open.discard(connection)
            self._heard.append(bytes(heard))
            self._changed.notify_all()

    def _listen_to(self, connection: socket.socket, heard: bytearray) -> None:
        if isinstance(connection, ssl.SSLSocket):
            connection.do_handshake()
            connection.sendall(AGREES)
            while data := connection.recv(CHUNK):
                heard += data
            return
        while data := connection.recv(CHUNK):
            heard += data
            if self._kind == "closes":
                return
            connection.sendall(AGREES)


def is_at_most_a_hello(heard: bytes) -> bool:
    """Say whether these bytes are nothing, or one TLS ClientHello, with perhaps an alert behind it."""
    kinds = []
    while heard:
        if len(heard) < 6:
            return False
        kind, _, length = struct.unpack_from(">BHH", heard)
        kinds.append((kind, heard[5] if kind == TLS_HANDSHAKE else None))
        heard = heard[5 + length :]
    return kinds in ([], [(TLS_HANDSHAKE, CLIENT_HELLO)], [(TLS_HANDSHAKE, CLIENT_HELLO), (TLS_ALERT, None)])
