"""One link to all brokers for everything that a program does with them at once: questions, waits and sessions."""

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
from dbg_client.core.patience import WaitingLine, cancel_and_wait
from dbg_command.home import user_name
from dbg_dial.endpoint import Reach
from dbg_dial.find import Opening, Seeker, find_broker
from dbg_wire.codec import Input
from dbg_wire.errors import BrokerUnreachable, printable
from dbg_wire.messages import Answers, Message, Question, Refusal, Welcome

T = TypeVar("T")

MAX_EVENTS = 1024
"""Pages of answers that wait for one question; its task takes each at once, so more are a fault of ours."""

MAX_QUESTIONS = 15
"""Pages of questions that are open at once: one less than a broker takes, which may hold one that was withdrawn."""

WATCHER = "watcher"
"""The role whose tokens let a terminal look and nothing else."""

DIAL_EVERY_SECONDS = 1.0
"""Seconds between two attempts of a program to reach the broker, as long as none has succeeded."""

LOOK_SECONDS = 0.03
"""Seconds for which events are gathered (a debounce): who waits looks at all ranks, and a thousand may stop at once."""

Tell = Callable[[str], None]
"""Takes a sentence for the user: that something is waited for, that the broker is gone, that it is back."""

MAX_PROGRAM = 60
"""Characters of a program's name, which stands behind its user's."""

Watch = Callable[[Event], Awaitable[None]]
"""Takes each event, which the directory knows already; nothing more is read until it returns."""


def tell_nobody(sentence: str) -> None:
    """Drop the sentence: a :data:`Tell` for a program without a user who waits."""


class Switchboard:
    """The broker of one program, over any number of the broker's restarts.

    Belongs to one event loop. A task reads the link from :meth:`dial` to :meth:`close`, and keeps ``directory`` as the
    broker tells it. Any number of tasks may ask and wait meanwhile; the questions beyond MAX_QUESTIONS wait their turn.
    The broker is found anew at every dial, so the link follows one that moves. ``seconds`` is the time for a dial, for
    the list of ranks, and usually for a question.
    """

    def __init__(self, new_link: Callable[[], Brokers], seconds: float) -> None:
        self.directory = Directory()
        self.seconds = seconds
        self._new_link = new_link
        self._link = new_link()
        self._numbers = count()
        self._questions: dict[int, asyncio.Queue[Event | BaseException]] = {}
        self._news = asyncio.Event()
        """Set after events, and replaced then."""
        self._failure: BaseException | None = None
        """Why nothing comes any more."""
        self._next_look: asyncio.TimerHandle | None = None
        self._last_look = -LOOK_SECONDS
        self._turns = asyncio.Semaphore(MAX_QUESTIONS)
        self._open: set[int] = set()
        self._watchers: list[Watch] = []
        self._reading: asyncio.Task[None] | None = None

    # --------------------------------------------------------------------------------------------------- connection

    @property
    def url(self) -> str:
        """Return the address of the broker as last found."""
        return self._link.url

    @property
    def welcome(self) -> Welcome | None:
        """Return what the broker last said of itself; None while the link is down."""
        return self._link.welcome

    @property
    def may_act(self) -> bool:
        """Tell whether the token lets this program change anything, as far as the broker has told."""
        return self.welcome is None or self.welcome.role != WATCHER

    @property
    def is_up(self) -> bool:
        """Tell whether the link stands."""
        return self._link.is_up

    @property
    def silent_since(self) -> float | None:
        """Return when the seat's broker last answered a ping, if it is silent; None otherwise, or while it is away."""
        return self._link.silent_since

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Return the addresses of brokers that can't be reached while others can."""
        return self._link.unreachable

    @property
    def is_current(self) -> bool:
        """Tell whether the link stands and the directory has the whole list of this connection."""
        return self.directory.complete and self.directory.away is None

    async def dial(self) -> None:
        """Dial once, and read what comes from then on. Raises what :meth:`.link.BrokerLink.open` raises."""
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
        """Dial, and wait until all ranks are known. Raises what the two raise; nothing is open then."""
        await self.dial()
        try:
            await self.listed()
        except BaseException:
            await self.close()
            raise

    def another(self) -> Switchboard:
        """Return one with a connection of its own to the same broker, not open yet: a connection has one seat."""
        return Switchboard(self._new_link, self.seconds)

    async def close(self) -> None:
        """Send what is queued and close; open questions and waits end with BrokerUnreachable. Never an error."""
        reading, self._reading = self._reading, None
        await cancel_and_wait(reading)
        if self._next_look is not None:
            self._next_look.cancel()
        self._fail(BrokerUnreachable(self._link.url, "this program has closed its connection"))
        await self._link.close()

    # ----------------------------------------------------------------------------------------------------- its users

    def send(self, item: Message | Input) -> bool:
        """Queue for the broker; return False, with nothing done, while the link is down."""
        return self._link.send(item)

    def next_number(self) -> int:
        """Return a number that no other question of this link has."""
        return next(self._numbers)

    @asynccontextmanager
    async def ask(self, question: Question) -> AsyncIterator[Callable[[], Awaitable[Event]]]:
        """Send a question once fewer than MAX_QUESTIONS are open, and yield what returns its next event.

        An answer that comes after the block is forgotten. Raises TimedOut if the broker is gone.
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

    def give_up(self, request: int) -> None:
        """Let others ask in place of a question that the broker leaves open for too long."""
        self._end_questions(request)

    async def until(self, found: Callable[[], T | None], seconds: float | None = None, tell: Tell = tell_nobody) -> T:
        """Return what ``found`` finds; it is called now, and after events, for several at once if they come fast.

        The broker may come and go meanwhile; ``tell`` gets a sentence on that. Raises TimeoutError after ``seconds``,
        and what ``found`` raises.
        """
        told = False
        try:
            async with asyncio.timeout(seconds):
                while (result := found()) is None:
                    if self._failure is not None:
                        raise self._failure
                    await self._news.wait()
                    told = self._tell_absence(tell, told=told)
        except TimeoutError:
            # What came last may not have been looked at yet.
            if (result := found()) is None:
                raise
        return result

    def _tell_absence(self, tell: Tell, *, told: bool) -> bool:
        """Tell once that the broker is gone, and once that it is back; return whether it is gone."""
        away = self.directory.away
        if away is not None and not told:
            tell(f"The broker is gone, reconnecting ({printable(away)}).")
        elif away is None and told:
            tell("The broker is back.")
        return away is not None

    @contextmanager
    def watched_by(self, watch: Watch) -> Iterator[None]:
        """Hand every event to a session, or another task that needs all of them, while the block runs."""
        self._watchers.append(watch)
        try:
            yield
        finally:
            self._watchers.remove(watch)

    # ------------------------------------------------------------------------------------------------- what comes in

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
        # After the watchers: what is waited for may be something that one of them has learnt.
        if self._next_look is None:
            loop = asyncio.get_running_loop()
            pause = max(0.0, self._last_look + LOOK_SECONDS - loop.time())
            self._next_look = loop.call_later(pause, self._have_looked)

    def _have_looked(self) -> None:
        """Have all who wait look at what has changed."""
        self._next_look = None
        self._last_look = asyncio.get_running_loop().time()
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _note(self, event: Event) -> None:
        """Have the directory know an event, and let others ask once a question has ended."""
        if isinstance(event, Down):
            self._end_questions(*self._open)
        elif (isinstance(event, Answers) and event.last) or isinstance(event, Refusal):
            self._end_questions(event.request)
        if isinstance(event, Up):
            self.directory.begin()
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
        """Let others ask once these questions have their answer, or will have none."""
        for request in requests:
            if request in self._open:
                self._open.remove(request)
                self._turns.release()

    def _fail(self, error: BaseException) -> None:
        self._end_questions(*self._open)
        for events in self._questions.values():
            _offer(events, error)
        self._failure = error
        self._have_looked()


async def _next_of(events: asyncio.Queue[Event | BaseException]) -> Event:
    event = await events.get()
    if isinstance(event, BaseException):
        raise event
    return event


def _offer(events: asyncio.Queue[Event | BaseException], event: Event | BaseException) -> None:
    """Hand over an event; the oldest one makes room."""
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
    """Return a switchboard, not open yet, to ``address`` or to where the environment or ``broker.json`` says.

    One dial takes ``seconds`` at most, and so do the list of ranks and, usually, a question. ``program`` tells other
    users what asks and types here, empty for a terminal. With ``logs`` watchers get the texts of log points, too.
    """
    name = person_name(program)

    def find(opening: Opening) -> Reach:
        return find_broker(Seeker(role="driver", argument_name="--broker", opening=opening), address, environ)

    return Switchboard(lambda: Brokers(find, name, seconds, logs=logs), seconds)


def person_name(program: str) -> str:
    """Return by what name other users see this program: ``user@host``, or ``user@host (program)``."""
    shown = " ".join(printable(program.strip(), MAX_PROGRAM).split())
    return f"{user_name()} ({shown})" if shown else user_name()


async def open_and_list(switchboard: Switchboard, line: WaitingLine, tell: Tell = tell_nobody) -> None:
    """Dial the broker and read its list, saying what is waited for. Raises what the two raise.

    ``tell`` gets a sentence on each broker whose ranks are not in the list.
    """
    async with line.says(lambda: "waiting for the broker to answer"):
        await switchboard.dial()
    async with line.says(lambda: "waiting for the broker's list of ranks"):
        await switchboard.listed()
    for url in switchboard.unreachable:
        tell(f"The broker at {printable(url)} does not answer; its ranks are not listed.")
