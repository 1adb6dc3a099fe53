"""One link to the broker for everything that a program does with the broker at once: questions, waits and news."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import TypeVar

from dbg_dial.deadline import within
from dbg_wire.codec import Input, Output
from dbg_wire.errors import BrokerUnreachable
from dbg_wire.messages import Answers, Message, Progress, Question, Refusal

from ..errors import SlowBroker, TimedOut
from .asking import Asker
from .directory import Directory
from .link import BrokerLink, Down, Event, Up
from .news import News, is_whole, may_change

T = TypeVar("T")

MAX_EVENTS = 1024
"""Pages of answers that wait for one question; its task takes each at once, so more are a fault of ours."""


class QuestionLine:
    """The part of a shared link that belongs to the questions of one task."""

    def __init__(self, send: Callable[[Message | Input], bool]) -> None:
        self._send = send
        self._requests: set[int] = set()
        self._events: asyncio.Queue[Event | BaseException] = asyncio.Queue(MAX_EVENTS)

    def send(self, item: Message | Input) -> bool:
        """Queue for the broker; return False while the link is down."""
        if isinstance(item, Question):
            self._requests.add(item.request)
        return self._send(item)

    async def next(self) -> Event:
        """Return the next event for these questions."""
        event = await self._events.get()
        if isinstance(event, BaseException):
            raise event
        return event

    def asked(self, request: int | None) -> bool:
        """Tell whether a question of this number is of this line; None stands for any."""
        return bool(self._requests) if request is None else request in self._requests

    def offer(self, event: Event | BaseException) -> None:
        """Hand over an event; the oldest one makes room."""
        if self._events.full():
            self._events.get_nowait()
        self._events.put_nowait(event)


class _Wait:
    """Something that is waited for: ``look`` is called after each event."""

    def __init__(self, look: Callable[[], None], failed: Callable[[BaseException], None]) -> None:
        self.look = look
        self.failed = failed


class Switchboard:
    """The broker of one program, over any number of the broker's restarts.

    Belongs to one event loop. A task reads the link from :meth:`open` to :meth:`close`, and keeps ``directory`` as the
    broker tells it. Any number of tasks may ask and wait meanwhile.
    """

    def __init__(self, new_link: Callable[[], BrokerLink], seconds: float) -> None:
        self.directory = Directory()
        self.seconds = seconds
        """Seconds within which the broker has to list its ranks, and a question is answered, unless a call says so."""
        self._new_link = new_link
        self._link = new_link()
        self._numbers = count()
        self._lines: list[QuestionLine] = []
        self._waits: list[_Wait] = []
        self._news: list[News] = []
        self._watching: list[Callable[[Event], None]] = []
        self._reading: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Return the address of the broker as last found."""
        return self._link.url

    async def open(self) -> None:
        """Dial, and wait for the list of ranks. Raises what :meth:`.link.BrokerLink.open` does, and SlowBroker."""
        await self._link.open()
        self._reading = asyncio.create_task(self._read())
        try:
            await self.until(lambda: self.directory.complete or None, self.seconds)
        except TimedOut:
            await self.close()
            error = SlowBroker if self._link.is_up else BrokerUnreachable
            raise error(self._link.url, f"it did not list its ranks within {self.seconds:g} s") from None
        except BaseException:
            await self.close()
            raise

    def another(self) -> Switchboard:
        """Return one with a connection of its own to the same broker, not open yet: a connection has one seat."""
        return Switchboard(self._new_link, self.seconds)

    async def close(self) -> None:
        """Send what is queued and close; open questions and waits end with BrokerUnreachable. Never an error."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        self._fail(BrokerUnreachable(self._link.url, "this program has closed its connection"))
        await self._link.close()

    def send(self, item: Message | Input) -> bool:
        """Queue for the broker; return False, with nothing done, while the link is down."""
        return self._link.send(item)

    @asynccontextmanager
    async def asker(
        self, seconds: float | None = None, size: Callable[[], tuple[int, int]] = lambda: (24, 80)
    ) -> AsyncIterator[Asker]:
        """Yield what asks ranks, for one task; what is still open afterwards is forgotten."""
        line = QuestionLine(self._link.send)
        self._lines.append(line)
        try:
            # The asker writes into a directory of its own: this class keeps the real one.
            yield Asker(line, Directory(), self.seconds if seconds is None else seconds, size, numbers=self._numbers)
        finally:
            self._lines.remove(line)

    async def until(self, found: Callable[[], T | None], seconds: float | None = None) -> T:
        """Return what ``found`` finds; it is called now, and after each event. The broker may come and go meanwhile.

        Raises TimedOut after ``seconds``, and what ``found`` raises.
        """
        result = found()
        if result is not None:
            return result
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def failed(error: BaseException) -> None:
            if not done.done():
                done.set_exception(error)

        def look() -> None:
            try:
                now = found()
            except Exception as error:
                failed(error)
                return
            if now is not None and not done.done():
                done.set_result(now)

        wait = _Wait(look, failed)
        self._waits.append(wait)
        try:
            return await within(seconds, done)
        except asyncio.TimeoutError:
            raise TimedOut(f"it did not happen within {seconds:g} s") from None
        finally:
            self._waits.remove(wait)

    @asynccontextmanager
    async def news(self) -> AsyncIterator[News]:
        """Yield the changes of ranks that come from now on."""
        news = News()
        self._news.append(news)
        try:
            yield news
        finally:
            self._news.remove(news)

    def watch(self, take: Callable[[Event], None]) -> Callable[[], None]:
        """Have ``take`` called with every event, after the directory knows it; return what ends that."""
        self._watching.append(take)
        return lambda: self._watching.remove(take)

    # ------------------------------------------------------------------------------------------------- what comes in

    async def _read(self) -> None:
        try:
            while True:
                self._take(await self._link.next())
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._fail(error)

    def _take(self, event: Event) -> None:
        if isinstance(event, (Up, Down)):
            self.directory.begin()
            if isinstance(event, Down):
                self.directory.away = event.reason
        elif not isinstance(event, Output):
            before = may_change(event, self.directory) if self._news else {}
            self.directory.take(event)
            for news in self._news:
                news.changed(before, self.directory.by_key, whole=is_whole(event))
        for line in self._lines_for(event):
            line.offer(event)
        for take in tuple(self._watching):
            take(event)
        for wait in tuple(self._waits):
            wait.look()

    def _lines_for(self, event: Event) -> Iterator[QuestionLine]:
        if isinstance(event, Down):
            yield from tuple(self._lines)
        elif isinstance(event, (Answers, Progress)):
            yield from (line for line in tuple(self._lines) if line.asked(event.request))
        elif isinstance(event, Refusal):
            # An older broker does not say which question it refuses: it takes them in turn, so it means the oldest.
            yield from [line for line in self._lines if line.asked(event.request)][:1]

    def _fail(self, error: BaseException) -> None:
        for line in self._lines:
            line.offer(error)
        for wait in tuple(self._waits):
            wait.failed(error)
        for news in self._news:
            with suppress(asyncio.QueueFull):
                news.end(error)
