"""Whom a connection tells what happens on it."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from dbg_broker.home.tokens import Role
    from dbg_broker.net.connection import Connection
    from dbg_broker.net.http import Answer, Upgrade


class Owner(typing.Protocol):
    """Be told what happens on connections."""

    def admit(self, connection: Connection, upgrade: Upgrade) -> Role | Answer:
        """Return the role in which this request may become a WebSocket, or what to answer instead."""

    def opened(self, connection: Connection, role: Role) -> None:
        """Take a new WebSocket."""

    def has_bytes(self, connection: Connection) -> bool:
        """Have a connection read what came, now or when it is its turn; return whether it waits for that."""

    def text_received(self, connection: Connection, text: str) -> None:
        """Take a control message."""

    def data_received(self, connection: Connection, data: bytes) -> None:
        """Take terminal bytes."""

    def frame_received(self, connection: Connection) -> None:
        """Note a frame that is no message: a ping, a pong, or a part of one."""

    def unfinished(self, connection: Connection, size: int, *, is_new: bool) -> None:
        """Note how many bytes of a message that is not complete are kept; ``is_new`` if one was completed since."""

    def drained(self, connection: Connection) -> None:
        """Send what had no room."""

    def overflowed(self, connection: Connection) -> None:
        """Note that a control message had no room."""

    def lost(self, connection: Connection) -> None:
        """Forget a connection."""

    def failed(self, connection: Connection, reason: str) -> None:
        """Note that somebody who is none of us was here."""
