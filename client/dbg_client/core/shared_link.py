"""The one connection of a session, as those see it who ask something beside the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dbg_wire.codec import Input
from dbg_wire.messages import Answers, Message, Refusal

from .link import Down, Event

MAX_EVENTS = 1024
"""Pages of answers and the like that wait for the asker, which empties it at once, so that more is a bug."""


class SharedLink:
    """Be a link for questions beside a session, which reads the real one and hands over what answers a question."""

    def __init__(self, send: Callable[[Message | Input], bool]) -> None:
        self._send = send
        self._events: asyncio.Queue[Event] | None = None

    def begin(self) -> None:
        """Begin to take what comes for a question; what came for one that was given up is forgotten."""
        self._events = asyncio.Queue(MAX_EVENTS)

    def end(self) -> None:
        """Take nothing any more."""
        self._events = None

    def offer(self, event: Event) -> bool:
        """Take an event if a question is open and waits for one like it; return whether it was for the question."""
        if self._events is None or not isinstance(event, (Answers, Refusal, Down)):
            return False
        if self._events.full():
            self._events.get_nowait()
        self._events.put_nowait(event)
        return not isinstance(event, Down)

    def send(self, item: Message | Input) -> bool:
        """Queue for the broker; return False while the link is down."""
        return self._send(item)

    async def next(self) -> Event:
        """Return the next event for the question."""
        if self._events is None:
            raise RuntimeError("no question is open")
        return await self._events.get()
