"""Socket options of an accepted connection, and its peer's address as people write it."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from dbg_dial.tcp import ask_peer
from dbg_wire import limits

TERMINAL_SEND_BUFFER = 64 * limits.KIB
"""Bytes that the kernel keeps for a terminal: they can't be dropped any more, and delay all later bytes."""

TERMINAL_UNSENT = 16 * limits.KIB
"""Bytes that the kernel takes for a terminal before it can send them: on a slow line they delay all later ones."""


def tune(transport: asyncio.Transport, *, to_terminal: bool) -> None:
    """Have a silent peer's host asked whether it is still there, and keep little in the kernel for a terminal."""
    connected = transport.get_extra_info("socket")
    if connected is None:
        # A TLS transport forgets its socket as soon as that is closed.
        return
    ask_peer(connected)
    if to_terminal:
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, TERMINAL_SEND_BUFFER)
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, TERMINAL_UNSENT)


def peer_name(address: object) -> str:
    """Return a socket's address as people write it."""
    if isinstance(address, tuple) and len(address) >= 2:
        host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
        return f"{host}:{address[1]}"
    return "?"


def host_of(peer: str) -> str:
    """Return the host's part of :func:`peer_name`."""
    return peer.rpartition(":")[0]
