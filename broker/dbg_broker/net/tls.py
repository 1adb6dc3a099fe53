"""TLS of one accepted connection, on top of the transport of its bytes.

asyncio's own TLS does its work as soon as bytes come, and a handshake takes a millisecond: a hundred that come at once
would keep the loop for a tenth of a second. Here nothing is worked on before the owner asks for it, which is when it
is the connection's turn. The handshake and the records are the ``ssl`` module's. All methods belong to the event
loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any


class SecureTransport(asyncio.Transport):
    """Transport that encrypts what is written, and decrypts what its owner feeds it with."""

    __slots__ = (
        "_context",
        "_has_ended_output",
        "_incoming",
        "_outgoing",
        "_raw",
        "_session",
        "has_ended",
        "is_dry",
        "is_shaken",
    )

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        # Made for the first bytes: most connections of a flood send none.
        self._session: ssl.SSLObject | None = None
        self._raw: asyncio.Transport | None = None
        self._has_ended_output = False
        self.is_shaken = False
        """Whether the handshake is complete."""
        self.has_ended = False
        """Whether the peer said that it sends nothing more."""
        self.is_dry = True
        """Whether all that was fed has been read."""

    def run_on(self, raw: asyncio.Transport) -> None:
        """Take the transport that carries the encrypted bytes."""
        self._raw = raw

    # ------------------------------------------------------------------------------------------------- what comes in

    def feed(self, data: bytes) -> None:
        """Take encrypted bytes; they cost nothing before :meth:`read`."""
        self._incoming.write(data)
        self.is_dry = False

    def read(self, size: int) -> bytes:
        """Go on with the handshake, then return at most ``size`` bytes that the peer said; empty if more must come.

        Raise ssl.SSLError if the peer speaks no TLS, or breaks its rules; it was told so then.
        """
        try:
            if not self.is_shaken:
                self._tls.do_handshake()
                self.is_shaken = True
            data = self._tls.read(size)
        except ssl.SSLWantReadError:
            self.is_dry = True
            return b""
        except ssl.SSLZeroReturnError:
            data = b""
        except ssl.SSLError:
            self.is_dry = True
            raise
        finally:
            self._pass_on()
        if not data:
            self.has_ended = True
        # Asking for more than there is costs as much as what was read.
        self.is_dry = not data or (not self._incoming.pending and not self._tls.pending())
        return data

    def drop(self) -> None:
        """Forget what was fed and not read."""
        self.is_dry = True

    # ----------------------------------------------------------------------------------------------- asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Encrypt and write; nothing after :meth:`write_eof`, and nothing before the handshake is complete."""
        if self._has_ended_output or not self.is_shaken:
            return
        left = memoryview(data)
        while left:
            left = left[self._tls.write(left) :]
        self._pass_on()

    def can_write_eof(self) -> bool:
        """Return whether the output can be ended while input goes on."""
        return self.is_shaken and self._raw is not None and self._raw.can_write_eof()

    def write_eof(self) -> None:
        """End the output, which the peer is told; what it still sends can be read."""
        if self._has_ended_output or self._raw is None:
            return
        # The peer's own goodbye isn't there yet, and isn't waited for here.
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._pass_on()
        self._has_ended_output = True
        self._raw.write_eof()

    def close(self) -> None:
        """Close when all that was written has gone."""
        if self._raw is not None:
            self._raw.close()

    def abort(self) -> None:
        """Close at once."""
        if self._raw is not None:
            self._raw.abort()

    def is_closing(self) -> bool:
        """Return whether it is closed or about to be."""
        return self._raw is None or self._raw.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport below says."""
        return default if self._raw is None else self._raw.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return how many encrypted bytes the kernel hasn't taken yet."""
        return 0 if self._raw is None else self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set from how many encrypted bytes on the protocol is to write no more."""
        if self._raw is not None:
            self._raw.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Read nothing from the socket."""
        if self._raw is not None:
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        if self._raw is not None:
            self._raw.resume_reading()

    # ---------------------------------------------------------------------------------------------------------- inner

    @property
    def _tls(self) -> ssl.SSLObject:
        if self._session is None:
            self._session = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        return self._session

    def _pass_on(self) -> None:
        data = self._outgoing.read()
        if data and self._raw is not None and not self._raw.is_closing() and not self._has_ended_output:
            self._raw.write(data)
