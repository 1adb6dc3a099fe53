"""One link to all brokers, shared by all concurrent tasks of a program: questions, waits and sessions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from typing import TypeVar

from dbg_client.core.brokers import Brokers
from dbg_client.core.directory import Directory
from dbg_client.core.errors import SlowBroker, TimedOut
from dbg_client.core.link import Down, Event, Up
from dbg_client.core.wait_progress import WaitingLine, cancel_and_wait
from dbg_command.home import user_name
from dbg_dial.endpoint import Route
from dbg_dial.find import DiscoveryOptions, Opening, find_broker
from dbg_wire.codec import Input
from dbg_wire.errors import BrokerUnreachable, printable
from dbg_wire.messages import Answers, Message, Question, Refusal, Welcome

T = TypeVar("T")

MAX_EVENTS = 1024
"""Maximum pages of answers queued for one question. Its task reads each at once, so more would be a bug."""

MAX_QUESTIONS = 15
"""Maximum pages of questions that are open at the same time.

A broker accepts one more, because a page that this program has withdrawn may still be open at the broker.
"""

WATCHER = "watcher"
"""Role of tokens that permit a terminal only to watch."""

DIAL_EVERY_SECONDS = 1.0
"""Seconds between two attempts to reach the broker, until the first success."""

CHECK_SECONDS = 0.03
"""Minimum interval between two wake-ups of the waiting tasks, in seconds.

At each wake-up, each task checks all ranks. Without this interval, a thousand ranks that stop at once would cause a
thousand wake-ups.
"""

Notify = Callable[[str], None]
"""Callback for a sentence to the user: about a wait, or about a broker that disconnected or reconnected."""

MAX_PROGRAM = 60
"""Maximum characters of a program's name, which other users see in brackets after the user's name."""

Watch = Callable[[Event], Awaitable[None]]
"""Callback for each event, after the directory was updated. Reading pauses until it returns."""


def ignore(sentence: str) -> None:
    """Discard the sentence; a :data:`Notify` for a program without a waiting user."""


class Switchboard:
    """Broker connection of one program, across any number of the broker's restarts.

    Belongs to one event loop. A task reads the link from :meth:`dial` to :meth:`close`, and updates ``directory``. Any
    number of tasks may ask and wait at the same time; questions beyond MAX_QUESTIONS are queued. Every dial finds the
    broker again, so the link follows a broker that moves. ``seconds`` is the timeout for a dial, for the list of ranks,
    and usually for a question.
    """

    def __init__(self, new_link: Callable[[], Brokers], seconds: float) -> None:
        self.directory = Directory()
        self.seconds = seconds
        self._new_link = new_link
        self._link = new_link()
        self._numbers = count()
        self._questions: dict[int, asyncio.Queue[Event | BaseException]] = {}
        self._news = asyncio.Event()
        """Wakes up the waiting tasks: it is set after changes, and then replaced by a new event."""
        self._failure: BaseException | None = None
        """Error that has ended the reading task."""
        self._next_check: asyncio.TimerHandle | None = None
        self._checked_at = -CHECK_SECONDS
        self._turns = asyncio.Semaphore(MAX_QUESTIONS)
        self._open: set[int] = set()
        self._watchers: list[Watch] = []
        self._reading: asyncio.Task[None] | None = None

    # --------------------------------------------------------------------------------------------------- connection

    @property
    def url(self) -> str:
        """Address of the broker as last found."""
        return self._link.url

    @property
    def welcome(self) -> Welcome | None:
        """Last welcome of the broker; None while the link is down."""
        return self._link.welcome

    @property
    def may_act(self) -> bool:
        """Whether the token permits changes, as far as is known from the welcome."""
        return self.welcome is None or self.welcome.role != WATCHER

    @property
    def is_up(self) -> bool:
        """Whether the link is connected."""
        return self._link.is_up

    @property
    def silent_since(self) -> float | None:
        """Time when the seat's broker last answered a ping, if it is silent; None otherwise, or while it is away."""
        return self._link.silent_since

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Addresses of brokers that can't be reached while other brokers can."""
        return self._link.unreachable

    @property
    def is_current(self) -> bool:
        """Whether the link is connected and the directory has the whole list of this connection."""
        return self.directory.complete and self.directory.away is None

    async def dial(self) -> None:
        """Dial once, and start to read. Raises the errors of :meth:`.link.BrokerLink.open`."""
        self._failure = None
        await self._link.open()
        self._reading = asyncio.create_task(self._read())

    async def listed(self, seconds: float | None = None) -> None:
        """Wait until all ranks are known. Raises SlowBroker, or BrokerUnreachable while the link is down."""
        seconds = self.seconds if seconds is None else seconds
        try:
            await self.until(lambda: self.is_current or None, seconds)
        except TimeoutError:
            error = SlowBroker if self._link.is_up else BrokerUnreachable
            raise error(self._link.url, f"it did not list its ranks within {seconds:g} s") from None

    async def open(self) -> None:
        """Dial, and wait until all ranks are known. Raises the errors of both steps, after closing the link."""
        await self.dial()
        try:
            await self.listed()
        except BaseException:
            await self.close()
            raise

    def another(self) -> Switchboard:
        """Return an unopened switchboard to the same broker, because a connection can have only one seat."""
        return Switchboard(self._new_link, self.seconds)

    async def close(self) -> None:
        """Send all queued messages and close. Open questions and waits end with BrokerUnreachable. Never raises."""
        reading, self._reading = self._reading, None
        await cancel_and_wait(reading)
        if self._next_check is not None:
            self._next_check.cancel()
        self._fail(BrokerUnreachable(self._link.url, "this program has closed its connection"))
        await self._link.close()

    # ---------------------------------------------------------------------------------------------- questions, waits

    def send(self, item: Message | Input) -> bool:
        """Queue an item for the broker. Return False, without effect, while the link is down."""
        return self._link.send(item)

    def next_number(self) -> int:
        """Return a number that is unique among the questions of this link."""
        return next(self._numbers)

    @asynccontextmanager
    async def ask(self, question: Question) -> AsyncIterator[Callable[[], Awaitable[Event]]]:
        """Send a question once fewer than MAX_QUESTIONS are open, and yield a function that returns its next event.

        Answers that arrive after the block are discarded. Raises TimedOut if the broker is gone.
        """
        await self._turns.acquire()
        self._open.add(question.request)
        events = self._questions[question.request] = asyncio.Queue(MAX_EVENTS)
        try:
            if not self._link.send(question):
                self._end_questions(question.request)
                raise TimedOut("the broker is gone")
            yield partial(_next_of, events)
        finally:
            del self._questions[question.request]

    def cancel(self, request: int) -> None:
        """Stop counting a question that the broker has left open for too long, so that others can be sent."""
        self._end_questions(request)

    async def until(self, found: Callable[[], T | None], seconds: float | None = None, notify: Notify = ignore) -> T:
        """Wait until ``found`` returns a value, and return it. ``found`` is called now and after events (debounced).

        The broker may disconnect and reconnect during the wait; ``notify`` gets a sentence about that. Raises
        TimeoutError after ``seconds``, and the errors of ``found``.
        """
        reported = False
        try:
            async with asyncio.timeout(seconds):
                while (result := found()) is None:
                    if self._failure is not None:
                        raise self._failure
                    await self._news.wait()
                    reported = self._report_absence(notify, reported=reported)
        except TimeoutError:
            # Check once more, because the most recent events may not have woken up this task yet.
            if (result := found()) is None:
                raise
        return result

    def _report_absence(self, notify: Notify, *, reported: bool) -> bool:
        """Report once that the broker is gone, and once that it is back. Return True while it is gone."""
        away = self.directory.away
        if away is not None and not reported:
            notify(f"The broker is gone, reconnecting ({printable(away)}).")
        elif away is None and reported:
            notify("The broker is back.")
        return away is not None

    @contextmanager
    def watched_by(self, watch: Watch) -> Iterator[None]:
        """Pass every event to ``watch``, such as a session, while the block runs."""
        self._watchers.append(watch)
        try:
            yield
        finally:
            self._watchers.remove(watch)

    # ------------------------------------------------------------------------------------------------------ receiving

    async def _read(self) -> None:
        try:
            while True:
                await self._receive(await self._link.next())
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._fail(error)

    async def _receive(self, event: Event) -> None:
        self._note(event)
        for events in self._questions_of(event):
            _offer(events, event)
        is_of_question = isinstance(event, Refusal) and event.request is not None
        if not is_of_question:
            for watch in tuple(self._watchers):
                await watch(event)
        # Wake up the waits after the watchers, because a condition may depend on the state of a watcher.
        if self._next_check is None:
            loop = asyncio.get_running_loop()
            pause = max(0.0, self._checked_at + CHECK_SECONDS - loop.time())
            self._next_check = loop.call_later(pause, self._check)

    def _check(self) -> None:
        """Wake up all waiting tasks."""
        self._next_check = None
        self._checked_at = asyncio.get_running_loop().time()
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _note(self, event: Event) -> None:
        """Update the directory, and release the slots of questions that have ended."""
        if isinstance(event, Down):
            self._end_questions(*self._open)
        elif (isinstance(event, Answers) and event.last) or isinstance(event, Refusal):
            self._end_questions(event.request)
        if isinstance(event, Up):
            self.directory.start()
        elif isinstance(event, Down):
            self.directory.cut_off(event.reason)
        elif isinstance(event, Message):
            self.directory.receive(event)

    def _questions_of(self, event: Event) -> list[asyncio.Queue[Event | BaseException]]:
        if isinstance(event, Down):
            return list(self._questions.values())
        request = event.request if isinstance(event, (Answers, Refusal)) else None
        return [self._questions[request]] if request in self._questions else []

    def _end_questions(self, *requests: int | None) -> None:
        """Release the slots of questions that are answered, or never will be."""
        for request in requests:
            if request in self._open:
                self._open.remove(request)
                self._turns.release()

    def _fail(self, error: BaseException) -> None:
        self._end_questions(*self._open)
        for events in self._questions.values():
            _offer(events, error)
        self._failure = error
        self._check()


async def _next_of(events: asyncio.Queue[Event | BaseException]) -> Event:
    event = await events.get()
    if isinstance(event, BaseException):
        raise event
    return event


def _offer(events: asyncio.Queue[Event | BaseException], event: Event | BaseException) -> None:
    """Queue an event. If the queue is full, the oldest event is dropped."""
    if events.full():
        events.get_nowait()
    events.put_nowait(event)


def switchboard_to(
    address: str | None,
    seconds: float,
    environ: Mapping[str, str] = os.environ,
    *,
    program: str = "",
    logs: bool = False,
) -> Switchboard:
    """Return an unopened switchboard to ``address``, or to the broker in the environment or in ``broker.json``.

    A dial, the list of ranks, and usually a question, each take at most ``seconds``. ``program`` is the name of this
    program for other users, empty for a terminal. With ``logs``, watchers also get the texts of log points.
    """
    name = person_name(program)

    def find(opening: Opening) -> Route:
        return find_broker(DiscoveryOptions(role="driver", argument_name="--broker", opening=opening), address, environ)

    return Switchboard(lambda: Brokers(find, name, seconds, logs=logs), seconds)


def person_name(program: str) -> str:
    """Return the name that other users see for this program: ``user@host``, or ``user@host (program)``."""
    shown = " ".join(printable(program.strip(), MAX_PROGRAM).split())
    return f"{user_name()} ({shown})" if shown else user_name()


async def open_and_list(switchboard: Switchboard, line: WaitingLine, notify: Notify = ignore) -> None:
    """Dial the broker and read its list, and show the current wait. Raises the errors of both steps.

    ``notify`` gets a sentence about each broker whose ranks are not in the list.
    """
    async with line.says(lambda: "waiting for the broker to answer"):
        await switchboard.dial()
    async with line.says(lambda: "waiting for the broker's list of ranks"):
        await switchboard.listed()
    for url in switchboard.unreachable:
        notify(f"The broker at {printable(url)} does not answer; its ranks are not listed.")
