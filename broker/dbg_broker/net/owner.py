"""What a connection tells its owner. A connection itself knows neither ranks nor terminals."""

from __future__ import annotations

from typing import Protocol, TypeVar

from dbg_broker.home.bearer import Bearer
from dbg_broker.net.http import HttpAnswer, Upgrade

C_contra = TypeVar("C_contra", contravariant=True)


class Owner(Protocol[C_contra]):
    """Owner of connections, told what happens on them."""

    def admit(self, connection: C_contra, upgrade: Upgrade) -> Bearer | HttpAnswer | None:
        """Return who may have a WebSocket for this request, or what to answer instead; None if the answer comes later.

        A later answer is given to the connection's ``respond``.
        """

    def opened(self, connection: C_contra, bearer: Bearer) -> None:
        """Take a new WebSocket."""

    def has_bytes(self, connection: C_contra) -> bool:
        """Have a connection read what came, now or when it is its turn; return whether it waits for its turn."""

    def text_received(self, connection: C_contra, text: str) -> None:
        """Take a control message."""

    def data_received(self, connection: C_contra, data: bytes) -> None:
        """Take terminal bytes."""

    def frame_received(self, connection: C_contra) -> None:
        """Note a frame that is no message: a ping, a pong, or a part of one."""

    def unfinished(self, connection: C_contra, size: int, *, is_new: bool) -> None:
        """Note the bytes kept of an incomplete message; ``is_new`` if one was completed since the last call."""

    def drained(self, connection: C_contra) -> None:
        """Send what had no room."""

    def overflowed(self, connection: C_contra) -> None:
        """Note that a control message had no room."""

    def lost(self, connection: C_contra) -> None:
        """Forget a connection."""

    def failed(self, connection: C_contra, reason: str) -> None:
        """Count a stranger: what came on the connection was no request for a WebSocket of the broker."""
