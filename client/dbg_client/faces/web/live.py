"""The socket of one page: all news, and what the page asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbg_client.faces.web.messages import Ask, Source, Withdraw, read_from_page
from dbg_wire.errors import PeerError

if TYPE_CHECKING:
    from dbg_client.faces.web.asks import Asks
    from dbg_client.faces.web.feed import Feed
    from dbg_client.faces.web.outbox import Outbox


class LivePage:
    """One page; its questions end with it."""

    def __init__(self, feed: Feed, asks: Asks, outbox: Outbox) -> None:
        self._feed, self._asks, self._outbox = feed, asks, outbox
        feed.join(outbox)

    async def receive(self, frame: str | bytes) -> None:
        """Take what the page asks. Raises PeerError."""
        if isinstance(frame, bytes):
            raise PeerError("bytes of a page that takes texts")
        item = read_from_page(frame)
        if isinstance(item, Ask):
            self._asks.ask(item)
        elif isinstance(item, Source):
            self._asks.show_source(item)
        elif isinstance(item, Withdraw):
            self._asks.withdraw(item.id)

    async def leave(self) -> None:
        """Give up what is open."""
        self._feed.leave(self._outbox)
        await self._asks.close()
