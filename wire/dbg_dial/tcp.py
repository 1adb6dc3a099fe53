"""TCP connections of all roles: no delay of small frames, keepalives for silent peers, and waits with timeouts."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from dbg_wire.limits import (
    CONNECTION_DEAD_SECONDS,
    KEEPALIVE_AGAIN_SECONDS,
    KEEPALIVE_SECONDS,
    RESEND_SECONDS,
)

T = TypeVar("T")

Address = tuple[socket.AddressFamily, tuple[Any, ...]]
"""Address family and address, as returned by :func:`socket.getaddrinfo`."""

TCP_RTO_MAX_MS = 44
"""Linux's number of the socket option that limits TCP's retransmission timeout; Python has no constant for it yet."""

_LAST_ACK = struct.Struct("56xI")
"""Format of Linux's ``struct tcp_info`` up to its field ``tcpi_last_ack_recv``, which is in milliseconds."""

SHUTDOWN = 1001
"""Close code of a broker that shuts down."""


async def within(seconds: float | None, waited_for: Awaitable[T]) -> T:
    """Await ``waited_for`` and return its result, with a timeout unless ``seconds`` is None.

    After ``seconds``, cancel ``waited_for`` and raise TimeoutError. This replaces ``asyncio.wait_for``: before Python
    3.12 it loses a cancellation that arrives together with the result, and then a cancelled task runs forever.
    """
    async with asyncio.timeout(seconds):
        return await waited_for


class OwnSocket(socket.socket):
    """Socket that never reads, writes or closes another file with the same descriptor.

    A program that becomes a daemon closes all descriptors, including those of a rank's agent, and then opens its own
    files with the same numbers. In this case each use raises OSError (EBADF), and closing does not close the program's
    file.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Accept the arguments of :class:`socket.socket`."""
        super().__init__(*args, **options)
        self._file = _file_of(self.fileno())

    def is_open(self) -> bool:
        """Return True if the descriptor is still this socket."""
        try:
            return _file_of(self.fileno()) == self._file
        except OSError:
            return False

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Receive as :meth:`socket.socket.recv` does."""
        self._check()
        return super().recv(size, flags)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive as :meth:`socket.socket.recv_into` does."""
        self._check()
        return super().recv_into(buffer, nbytes, flags)

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send as :meth:`socket.socket.send` does."""
        self._check()
        return super().send(data, flags)

    def sendmsg(self, buffers: Iterable[Any], *options: Any) -> int:
        """Send as :meth:`socket.socket.sendmsg` does."""
        self._check()
        return super().sendmsg(buffers, *options)

    def close(self) -> None:
        """Close the descriptor if it is still this socket."""
        if self.fileno() >= 0 and not self.is_open():
            self.detach()
        super().close()

    def _check(self) -> None:
        if not self.is_open():
            raise OSError(errno.EBADF, "the program has closed this socket")


def _file_of(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


async def connected(address: Address, seconds: float | None = None) -> OwnSocket:
    """Connect to an address and return the socket, with the keepalives of :func:`enable_keepalive`.

    Raise OSError, or TimeoutError after ``seconds``. A cancellation at any time closes the socket.
    """
    family, name = address
    # asyncio sets TCP_NODELAY, which sends small frames at once, only if the socket's protocol is given explicitly.
    sock = OwnSocket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        enable_keepalive(sock)
        # The zone of a link-local address (after "%") is also in the tuple, as a number.
        name = (str(name[0]).partition("%")[0], *name[1:])
        await within(seconds, asyncio.get_running_loop().sock_connect(sock, name))
    except BaseException:
        sock.close()
        raise
    return sock


def enable_keepalive(sock: socket.socket) -> None:
    """Enable keepalives: the kernel probes the kernel of a silent peer after KEEPALIVE_SECONDS."""
    # A host that vanished sends nothing: without these options its connection would stay open forever.
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_AGAIN_SECONDS),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, int(CONNECTION_DEAD_SECONDS / KEEPALIVE_AGAIN_SECONDS)),
    ):
        with suppress(OSError):
            sock.setsockopt(level, option, value)
    with suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, RESEND_SECONDS * 1000)
        # With the short timeout that TCP_RTO_MAX_MS sets, the kernel's default number of retransmissions is used up
        # within seconds. So TCP_USER_TIMEOUT limits the time instead of the number.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(CONNECTION_DEAD_SECONDS * 1000))


def seconds_since_ack_of(sock: socket.socket) -> float:
    """Return the seconds since the peer's kernel last acknowledged data; 0 if unknown.

    The kernel of a suspended process still acknowledges data and keepalives; a host that vanished doesn't.
    """
    try:
        info: bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK.size)
        milliseconds: int = _LAST_ACK.unpack(info)[0]
    except (OSError, struct.error):
        return 0.0
    return milliseconds / 1000
