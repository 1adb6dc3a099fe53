"""Connections as all roles use them: small frames go out at once, a silent peer is asked, and waits have deadlines."""

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
"""A family, and an address of it as :func:`socket.getaddrinfo` gives them."""

TCP_RTO_MAX_MS = 44
"""The option's number on Linux, which Python doesn't name yet."""

_LAST_ACK = struct.Struct("56xI")
"""Where Linux puts ``tcpi_last_ack_recv`` in ``struct tcp_info``, in milliseconds."""

SHUTDOWN = 1001
"""The code with which a broker closes connections when it ends."""


async def within(seconds: float | None, waited_for: Awaitable[T]) -> T:
    """Return what ``waited_for`` returns; without ``seconds`` there is no deadline.

    Raises TimeoutError after ``seconds``; ``waited_for`` has been cancelled by then. Before Python 3.12
    ``asyncio.wait_for`` loses a cancellation that comes in the moment of the answer, and then a cancelled task goes on
    for ever.
    """
    async with asyncio.timeout(seconds):
        return await waited_for


class OwnSocket(socket.socket):
    """A socket that reads, writes and closes only its own file.

    Programs that become daemons close all descriptors, those of a rank's agent too, and then open files of their own
    under the same numbers. Each use raises OSError (EBADF) then, and closing leaves the number to the program.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the arguments of :class:`socket.socket`."""
        super().__init__(*args, **options)
        self._file = _file_of(self.fileno())

    def is_open(self) -> bool:
        """Tell whether the descriptor still is this socket."""
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
        """Close the descriptor if it still is this socket."""
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
    """Return a connected socket, whose kernel asks a silent peer as :func:`ask_peer` says.

    Raise OSError, and TimeoutError after ``seconds``. A cancellation closes the socket, whenever it comes.
    """
    family, name = address
    # asyncio sets TCP_NODELAY, which sends small frames at once, only if the socket's protocol is named.
    sock = OwnSocket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        ask_peer(sock)
        # The zone of a link-local address (behind "%") is also in the tuple as a number.
        name = (str(name[0]).partition("%")[0], *name[1:])
        await within(seconds, asyncio.get_running_loop().sock_connect(sock, name))
    except BaseException:
        sock.close()
        raise
    return sock


def ask_peer(sock: socket.socket) -> None:
    """Have the kernel ask a silent peer's kernel after KEEPALIVE_SECONDS whether it is there."""
    # A host that vanished says nothing: without these options its connection stays for ever.
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
        # With the option above, the kernel's usual number of attempts is over within seconds. TCP_USER_TIMEOUT bounds
        # the time instead of the number.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(CONNECTION_DEAD_SECONDS * 1000))


def seconds_since_ack_of(sock: socket.socket) -> float:
    """Return the seconds since the peer's kernel last acknowledged anything; 0 if unknown.

    The kernel of a suspended process still acknowledges and answers keepalives; a host that vanished doesn't.
    """
    try:
        info: bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK.size)
        milliseconds: int = _LAST_ACK.unpack(info)[0]
    except (OSError, struct.error):
        return 0.0
    return milliseconds / 1000
