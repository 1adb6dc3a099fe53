"""What a session needs of the terminal: a screen for PuDB, or lines for pdb, over one and the same attachment."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from dbg_client.attachment.attachment import Attachment
from dbg_client.attachment.effects import Effect, Effects
from dbg_client.terminal.options import SessionOptions
from dbg_client.views.session_status import Others


class HostSession(Protocol):
    """The session that a display belongs to, as the display sees it."""

    options: SessionOptions
    others: Others

    @property
    def attachment(self) -> Attachment:
        """Return the present rank's attachment."""
        ...

    @property
    def ended(self) -> bool:
        """Tell whether the session is over."""
        ...

    def perform(self, effects: Effects) -> None:
        """Carry out what follows from something the user did."""

    def command(self, key: str) -> bool:
        """Do what the key behind the prefix means; False if it means nothing to the session."""
        ...

    def lends(self, key: str) -> bool:
        """Tell whether the key behind the prefix opens something that takes the terminal for a while."""
        ...

    def lend(self, key: str, typed_ahead: bytes) -> None:
        """Open what the key behind the prefix means; keys typed ahead are for it."""

    def detach(self) -> None:
        """End the session, since the user wants it or the terminal is gone."""

    async def watched(self, part: Awaitable[None]) -> None:
        """Run a part of the session; what it raises ends all of it."""

    def now(self) -> float:
        """Return monotonic seconds."""
        ...


class Display(Protocol):
    """Show an attachment to the user, and tell it what the user does. Belongs to the session's event loop."""

    @property
    def size(self) -> tuple[int, int]:
        """Return the (rows, columns) that the rank gets."""
        ...

    async def open(self, keys: bytes) -> None:
        """Take the terminal; ``keys`` were typed before."""

    async def close(self) -> bytes:
        """Give the terminal back as it was; return the keys that were typed and not used."""
        ...

    def begin(self, address: str) -> None:
        """Show a rank from its beginning."""

    def show(self, effect: Effect) -> None:
        """Carry out an effect that is about the screen."""

    def paint(self) -> None:
        """Draw the status line or the toolbar anew."""

    def resized(self) -> None:
        """Take note that the window has another size."""

    async def suspend(self) -> None:
        """Lend the terminal to something else."""

    async def lend_row(self) -> None:
        """Lend the terminal to something that begins with one row, and leave the rest as it is where possible."""

    def resume(self) -> None:
        """Take the terminal back."""

    def take_keys(self, data: bytes) -> None:
        """Take keys that were typed while the terminal was lent."""
