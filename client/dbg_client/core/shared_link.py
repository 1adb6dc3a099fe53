"""The one connection of a session, as seen by questions that are asked beside the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dbg_wire.codec import Input
from dbg_wire.messages import Answers, Message, Progress, Refusal

from .link import Down, Event

MAX_EVENTS = 1024
"""Pages of answers and other events that wait for the asker; it takes each at once, so that more is a bug."""


class SharedLink:
    """A link for questions beside a session; the session reads the real link and hands the answers over."""

    def __init__(self, send: Callable[[Message | Input], bool]) -> None:
        self._send = send
        self._events: asyncio.Queue[Event] | None = None

    def begin(self) -> None:
        """Begin to take answers; those to a question that was given up are forgotten."""
        self._events = asyncio.Queue(MAX_EVENTS)

    def end(self) -> None:
        """Take no answers any more."""
        self._events = None

    def offer(self, event: Event) -> bool:
        """Take an event if an open question may wait for it; return True if the session must not handle it."""
        if self._events is None or not isinstance(event, (Answers, Progress, Refusal, Down)):
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
