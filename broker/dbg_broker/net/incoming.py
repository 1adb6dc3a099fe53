"""Bytes that came on one connection and are not read yet, in pieces, and decrypted where there is TLS."""

from __future__ import annotations

from dbg_broker.net.tls import SecureTransport
from dbg_wire import limits

PIECE_BYTES = 4 * limits.KIB
"""Bytes that are read at once, between two looks at the clock: 200 short messages, which cost 8 ms."""

UNREAD_BYTES = 64 * limits.KIB
"""Bytes waiting for their turn at which the socket is not read any more."""


class IncomingBytes:
    """The bytes of one connection; nothing is decrypted before it is asked for."""

    __slots__ = ("_secure", "_unread")

    def __init__(self, secure: SecureTransport | None) -> None:
        self._secure = secure
        self._unread = bytearray()

    def __bool__(self) -> bool:
        return bool(self._unread) or (self._secure is not None and not self._secure.is_dry)

    @property
    def is_full(self) -> bool:
        """Tell whether enough waits."""
        return len(self._unread) >= UNREAD_BYTES

    def take(self, data: bytes) -> None:
        """Keep bytes of the socket."""
        self._unread += data

    def piece(self) -> bytes:
        """Return the next bytes that the peer said; with TLS they may be empty. Raise ssl.SSLError."""
        secure = self._secure
        if secure is not None and not secure.is_dry:
            return secure.read(PIECE_BYTES)
        piece = bytes(self._unread[:PIECE_BYTES])
        del self._unread[:PIECE_BYTES]
        if secure is None:
            return piece
        secure.feed(piece)
        return secure.read(PIECE_BYTES)

    def clear(self) -> None:
        """Forget all that waits."""
        self._unread.clear()
        if self._secure is not None:
            self._secure.drop()
