"""Connection to one broker, and a link that reconnects whenever a connection breaks. Sending never blocks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from websockets.exceptions import ConnectionClosed

from dbg_client.core.wait_progress import cancel_and_wait, in_thread, read_in_thread
from dbg_dial.dial import AddressInfos, BrokerWebSocket, dial_broker, first_to_answer
from dbg_dial.endpoint import Endpoint, Route, known_endpoints, spread
from dbg_dial.find import Opening
from dbg_dial.tcp import SHUTDOWN, within
from dbg_wire import PROTOCOL_MINOR, RELEASE, limits
from dbg_wire.codec import Input, Output, UnknownType, decode, decode_data, encode, encode_data
from dbg_wire.errors import BrokerUnreachable, ConnectionClosedEarly, DbgError, PeerError, Refused
from dbg_wire.limits import KIB
from dbg_wire.messages import Greet, Message, Refusal, Sender, Subscribe, Welcome
from dbg_wire.records.record import clamp

FIRST_DELAY = 0.1
"""Maximum seconds before the first redial. It is short because service managers restart a broker at once."""

LONGEST_DELAY = 1.5
"""Maximum seconds between two redials. It is short, because a person waits; a thousand terminals cause a low load."""

SETTLED_SECONDS = 5.0
"""Seconds after which a connection counts as good. If it breaks earlier, the delays of redials keep growing."""


@dataclass(frozen=True, slots=True)
class Up:
    """The link is connected (again); a snapshot of all ranks follows."""


@dataclass(frozen=True, slots=True)
class Down:
    """The link broke, or another attempt to connect failed; ``reason`` is the cause."""

    reason: str


@dataclass(frozen=True, slots=True)
class SeatUp:
    """The broker that has the rank of this program's seat is connected; the list contains the rank's state."""


@dataclass(frozen=True, slots=True)
class SeatDown:
    """The program's seat is gone, although a broker is connected.

    The seat's rank has moved to another broker, or will do so.
    """

    reason: str


Event = Up | Down | SeatUp | SeatDown | Message | Output


class BrokerLink:
    """Receives the messages of the broker, across any number of its restarts.

    Belongs to one event loop; one task reads :meth:`next`. Every dial finds the broker again, so the link follows a
    broker that restarts with another port or certificate in ``broker.json``. Every connection subscribes to the ranks,
    and with ``logs`` to the texts of their log points. With several brokers, the broker of the home, or the one that
    the user has named, is dialled first. ``taken`` returns the URLs that other links dial; this link skips them.
    """

    def __init__(
        self,
        find: Callable[[Opening], Route],
        name: str,
        seconds: float,
        *,
        logs: bool = False,
        taken: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self.found: Route | None = None
        """Last known location of the broker."""
        self.brokers: tuple[Endpoint, ...] = ()
        """Brokers in the latest welcome message, its sender first; empty if there is only one."""
        self._find = find
        self._logs = logs
        self._name = name
        self._seconds = seconds
        self._taken = taken
        self._connection: Connection | None = None
        self._ending: Connection | None = None
        """Broken connection that is being closed. If closing is cancelled, :meth:`close` repeats it."""
        self._has_dialled = False
        self._attempt = 0
        self._up_since = 0.0

    @property
    def url(self) -> str:
        """Address of the broker as last found."""
        return self._connection.endpoint.url if self._connection else "the broker"

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    @property
    def silent_since(self) -> float | None:
        """Time when the broker last answered a ping, if it is silent; None otherwise, or while the link is down."""
        return self._connection.silent_since if self._connection else None

    @property
    def welcome(self) -> Welcome | None:
        """Last welcome of the broker; None while the link is down."""
        return self._connection.welcome if self._connection else None

    async def open(self) -> None:
        """Dial, for at most ``seconds``. Raises FileTimeout, and the errors of ``find`` and :func:`dial`.

        If the broker hangs up, it is dialled again: a broker that is flooded with unauthenticated connections hangs up
        on any connection.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            try:
                self._use(await self._dial(begun=begun))
                return
            except ConnectionClosedEarly:
                pause = self._pause()
                if loop.time() + pause >= begun + self._seconds:
                    raise
            await asyncio.sleep(pause)

    def send(self, item: Message | Input) -> bool:
        """Queue an item for the broker. Return False, without effect, while the link is down."""
        if self._connection is None:
            return False
        self._connection.send(item)
        return True

    async def next(self) -> Event:
        """Return the next event. While the link is down, this method dials, with growing pauses. Safe to cancel."""
        if self._connection is None:
            return await self._redial()
        try:
            event = await self._connection.receive()
            if isinstance(event, Welcome):
                self._learn(event)
            return event
        except Disconnected as ended:
            reason = ended.reason
        except PeerError as error:
            reason = str(error)
        await self._hang_up()
        return Down(reason)

    async def close(self) -> None:
        """Send all queued messages and close. Never raises."""
        connections = self._connection, self._ending
        self._connection = self._ending = None
        for connection in connections:
            if connection is not None:
                await connection.close()

    async def _redial(self) -> Event:
        if self._has_dialled:
            await asyncio.sleep(self._pause())
        try:
            self._use(await self._dial(again=True))
        except DbgError as error:
            return Down(str(error))
        return Up()

    def _pause(self) -> float:
        """Return the seconds before the next attempt."""
        # Full jitter, because terminals that lost the same broker must not reconnect in step.
        longest = min(LONGEST_DELAY, FIRST_DELAY * 2**self._attempt)
        self._attempt = min(self._attempt + 1, 30)
        return random.uniform(0, longest)  # noqa: S311

    async def _dial(self, *, begun: float | None = None, again: bool = False) -> Connection:
        """Dial the brokers in turn; the timeout starts at ``begun``, or now."""
        self._has_dialled = True
        loop = asyncio.get_running_loop()
        begun = loop.time() if begun is None else begun
        reach = await self._reach()
        routes = spread(reach, self.brokers, self._name, keeps_first=True).routes()
        routes = [route for route in routes if route.endpoint.url not in self._taken()] or routes[:1]

        async def dial_one(route: Route, left: int) -> Connection:
            for_others = self._seconds * (left - 1) / len(routes)
            spent = loop.time() - begun + for_others
            return await dial(route, self._name, self._seconds, spent=spent, again=again or left > 1)

        connection = await first_to_answer(routes, dial_one)
        self.found = reach
        return connection

    async def _reach(self) -> Route:
        """Return the location of the broker.

        If the broker can't be found but other brokers are known, return its last location.
        """
        try:
            return await read_in_thread(self._find, self._seconds)
        except DbgError:
            if self.found is None or not (self.found.others or self.brokers):
                raise
            return self.found

    def _use(self, connection: Connection) -> None:
        self._connection = connection
        if connection.welcome is not None:
            self._learn(connection.welcome)
        connection.send(Subscribe(logs=self._logs))
        self._up_since = asyncio.get_running_loop().time()

    def _learn(self, welcome: Welcome) -> None:
        self.brokers = known_endpoints((one.url, one.fingerprint) for one in welcome.brokers)

    async def _hang_up(self) -> None:
        if asyncio.get_running_loop().time() - self._up_since > SETTLED_SECONDS:
            self._attempt = 0
        self._ending, self._connection = self._connection, None
        if self._ending is not None:
            await self._ending.close()
            self._ending = None


PING_SECONDS = 2.0
"""Seconds between two pings. Their answers show that broker and network work."""

SILENT_PINGS = 2
"""Number of intervals without an answer after which the broker counts as silent. A user sees it within six seconds."""

DEAD_PINGS = 5
"""Number of intervals without an answer after which a connection is closed: ten seconds.

A healthy broker is never ten seconds late. If the network has lost the connection, a new connection may work.
"""

FLOWING_BYTES = 16 * KIB
"""A broker that has not answered a ping counts as alive if it sends at least this many bytes in one interval.

That much data may delay the answer to a ping. Messages on changes of a few ranks are much smaller.
"""

CONNECT_SECONDS = 2.0
"""Maximum seconds to connect if another attempt follows.

It is short, because a new attempt sends a connection request (SYN) at once, while the kernel repeats an unanswered one
at growing intervals.
"""

OUTBOX = 1024
"""Maximum messages queued for the socket. Typed keys are limited earlier, so more messages mean a stuck broker."""


class Disconnected(Exception):
    """Raised when the connection has ended. This is normal, and never shown as an error."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Connection:
    """Connection to one broker.

    Belongs to one event loop. :meth:`send` never blocks: if a broker stops reading, the outbox fills and the connection
    is closed, so that the keyboard never waits for it.
    """

    def __init__(self, websocket: BrokerWebSocket, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.welcome: Welcome | None = None
        self._websocket = websocket
        self._outbox: asyncio.Queue[str | bytes] = asyncio.Queue(OUTBOX)
        self._sender = asyncio.create_task(self._send_outbox())
        self._watching = asyncio.create_task(self._end_when_dead())
        self._answered_at = asyncio.get_running_loop().time()
        self._in_vain = 0
        """Number of intervals since the last answer to a ping."""
        self._pinging: asyncio.Task[None] | None = None

    def send(self, item: Message | Input) -> None:
        """Queue a message or keys for the broker. They are lost if the connection ends before they are sent."""
        frame = encode_data(item) if isinstance(item, Input) else encode(item)
        try:
            self._outbox.put_nowait(frame)
        except asyncio.QueueFull:
            self._websocket.transport.abort()

    async def receive(self) -> Message | Output:
        """Return the next message of the broker. Safe to cancel.

        Raises Disconnected when the connection has ended, and PeerError if the broker violates the protocol. Messages
        of a newer minor version are skipped.
        """
        while True:
            try:
                frame = await self._websocket.recv()
            except ConnectionClosed as closed:
                raise Disconnected(_why_closed(closed)) from None
            if isinstance(frame, bytes):
                data = decode_data(frame, Sender.AGENT)
                if isinstance(data, Output):
                    return data
                continue
            try:
                return decode(frame, Sender.BROKER)
            except UnknownType:
                continue

    @property
    def silent_since(self) -> float | None:
        """Time when the broker last answered a ping, by the event loop's clock, if it is silent; else None."""
        return self._answered_at if self._in_vain >= SILENT_PINGS else None

    async def close(self) -> None:
        """Send all queued messages and close, with at most CLOSE_SECONDS for each. Never raises."""
        try:
            await within(limits.CLOSE_SECONDS, self._outbox.join())
        except TimeoutError:
            self._websocket.transport.abort()
        await cancel_and_wait(self._sender, self._watching, self._pinging)
        await self._websocket.close()

    async def _end_when_dead(self) -> None:
        # Count intervals, not seconds, because a program that was suspended has sent no pings.
        while self._in_vain < DEAD_PINGS:
            if self._pinging is None or self._pinging.done():
                # Don't await the ping: if nothing can be sent on the link, it would never return.
                self._pinging = asyncio.create_task(self._ping())
            heard = self._websocket.heard
            await asyncio.sleep(PING_SECONDS)
            if self._pinging.done() or self._websocket.heard - heard >= FLOWING_BYTES:
                self._answered_at, self._in_vain = asyncio.get_running_loop().time(), 0
            else:
                self._in_vain += 1
        self._websocket.transport.abort()

    async def _ping(self) -> None:
        with suppress(ConnectionClosed):
            await (await self._websocket.ping())

    async def _send_outbox(self) -> None:
        while True:
            frame = await self._outbox.get()
            try:
                await self._websocket.send(frame)
            except ConnectionClosed:
                pass  # `receive` raises Disconnected
            finally:
                self._outbox.task_done()


async def dial(reach: Route, name: str, seconds: float, *, spent: float = 0.0, again: bool = False) -> Connection:
    """Connect, greet as ``name``, and return the connection after the broker's welcome.

    ``spent`` of the ``seconds`` have passed already or are reserved for other brokers. With ``again`` another attempt
    follows, so each address of the broker gets at most CONNECT_SECONDS.
    Raises BrokerUnreachable if no broker answers within ``seconds``, and WrongCertificate, WrongToken, WrongVersion or
    another Refused if the broker is the wrong one or refuses.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds - spent

    async def ask(find: Callable[[], AddressInfos]) -> AddressInfos:
        return await in_thread(find, max(0.0, end - loop.time()))

    timeout = CONNECT_SECONDS if again else seconds
    websocket = await dial_broker(reach, "/client", ask, seconds, connect_seconds=timeout, until=end)
    connection = Connection(websocket, reach.endpoint)
    try:
        await _greet(connection, name, max(0.0, end - loop.time()), seconds)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _greet(connection: Connection, name: str, left: float, seconds: float) -> None:
    url = connection.endpoint.url
    connection.send(clamp(Greet, minor=PROTOCOL_MINOR, release=RELEASE, name=name))
    try:
        answer = await within(left, connection.receive())
    except TimeoutError:
        raise BrokerUnreachable(url, f"it accepted the connection, then was silent for {seconds:g} s") from None
    except Disconnected as ended:
        raise BrokerUnreachable(url, ended.reason) from None
    if isinstance(answer, Refusal):
        raise Refused(url, answer.text)
    if not isinstance(answer, Welcome):
        raise PeerError("the broker's first message is not a welcome")
    connection.welcome = answer


def _why_closed(closed: ConnectionClosed) -> str:
    frame = closed.rcvd
    if frame is None:
        return "the connection broke"
    if frame.reason:
        return frame.reason
    return "it shut down" if frame.code == SHUTDOWN else f"it closed the connection with code {frame.code}"
