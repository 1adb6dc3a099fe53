"""A link to the broker that comes back by itself: a connection, and another one whenever it breaks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass

from dbg_client.core.connection import Connection, Disconnected, dial
from dbg_client.core.patience import read_in_thread
from dbg_dial.dial import first_to_answer
from dbg_dial.endpoint import Endpoint, Reach, spread
from dbg_dial.find import Opening
from dbg_dial.rendezvous import known_endpoints
from dbg_dial.waiting import Handover
from dbg_wire.codec import Input, Output
from dbg_wire.errors import DbgError, HungUp, PeerError
from dbg_wire.messages import Message, Subscribe, Welcome

FIRST_DELAY = 0.1
"""Seconds before the first redial, at most: a broker that is restarted at once is found at once."""

LONGEST_DELAY = 1.5
"""Seconds between two redials, at most: a person waits, and redials of a thousand terminals are still little load."""

SETTLED_SECONDS = 5.0
"""Seconds after which a connection counts as good: the delays of redials keep growing if it breaks before."""


@dataclass(frozen=True, slots=True)
class Up:
    """Say that the link stands (again); a snapshot of all ranks follows."""


@dataclass(frozen=True, slots=True)
class Down:
    """Say that the link broke or that one more attempt failed, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class SeatUp:
    """Say that a broker has the rank again at which this program has a seat; the list of ranks tells its state."""


@dataclass(frozen=True, slots=True)
class SeatDown:
    """Say why the seat is gone, though another broker is there: its rank is, or will be, at another one."""

    reason: str


Event = Up | Down | SeatUp | SeatDown | Message | Output


class BrokerLink:
    """Deliver what the broker says, over any number of its restarts.

    Belongs to one event loop; one task reads :meth:`next`. Every dial finds the broker anew, so the link follows a
    broker that comes back on another port or with another certificate if ``broker.json`` says so. Every connection
    subscribes to the ranks, and with ``logs`` to the texts of their log points. Of several brokers that of the home, or
    the one that the user has named, is dialled first, and none at the URLs that ``taken`` returns.
    """

    def __init__(
        self,
        find: Callable[[Opening], Reach],
        name: str,
        seconds: float,
        *,
        logs: bool = False,
        taken: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self.found: Reach | None = None
        """Where the broker was last."""
        self.brokers: tuple[Endpoint, ...] = ()
        """The brokers that the last welcome has named, its sender first; none if that is alone."""
        self._find = find
        self._logs = logs
        self._name = name
        self._seconds = seconds
        self._taken = taken
        self._connection: Connection | None = None
        self._ending: Connection | None = None
        """The connection that has broken, until it is closed: if that is cancelled, :meth:`close` does it."""
        self._has_dialled = False
        self._attempt = 0
        self._handover = Handover()
        self._up_since = 0.0

    @property
    def url(self) -> str:
        """Return the address of the broker as last found."""
        return self._connection.endpoint.url if self._connection else "the broker"

    @property
    def is_up(self) -> bool:
        """Return whether there is a connection at the moment."""
        return self._connection is not None

    @property
    def silent_since(self) -> float | None:
        """Return when the broker last answered a ping, if it is silent; None otherwise, or while the link is down."""
        return self._connection.silent_since if self._connection else None

    @property
    def welcome(self) -> Welcome | None:
        """Return what the broker last said of itself; None while the link is down."""
        return self._connection.welcome if self._connection else None

    async def open(self) -> None:
        """Dial, for ``seconds`` at most. Raises what ``find`` and :func:`~.connection.dial` raise; SilentFile.

        A broker that hangs up is dialled again as after a break: it does so while strangers flood it.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            try:
                self._use(await self._dial(begun=begun))
                return
            except HungUp:
                pause = self._pause()
                if loop.time() + pause >= begun + self._seconds:
                    raise
            await asyncio.sleep(pause)

    def send(self, item: Message | Input) -> bool:
        """Queue for the broker; return False, with nothing done, while the link is down."""
        if self._connection is None:
            return False
        self._connection.send(item)
        return True

    async def next(self) -> Event:
        """Return the next event; while the link is down this dials, with growing pauses. Safe to cancel."""
        if self._connection is None:
            return await self._redial()
        try:
            event = await self._connection.receive()
            if isinstance(event, Welcome):
                self._learn(event)
            return event
        except Disconnected as ended:
            reason = ended.reason
            self._handover.ended(ended.code, asyncio.get_running_loop().time())
        except PeerError as error:
            reason = str(error)
        await self._hang_up()
        return Down(reason)

    async def close(self) -> None:
        """Send what is queued and close; never an error."""
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
        # Full jitter: terminals that lost the same broker must not come back in step.
        longest = min(LONGEST_DELAY, FIRST_DELAY * 2**self._attempt)
        longest = self._handover.bound(longest, asyncio.get_running_loop().time())
        self._attempt = min(self._attempt + 1, 30)
        return random.uniform(0, longest)  # noqa: S311

    async def _dial(self, *, begun: float | None = None, again: bool = False) -> Connection:
        """Dial all brokers; the time is counted from ``begun``, or from now."""
        self._has_dialled = True
        loop = asyncio.get_running_loop()
        begun = loop.time() if begun is None else begun
        reach = await self._reach()
        routes = spread(reach, self.brokers, self._name, keeps_first=True).routes()
        routes = [route for route in routes if route.endpoint.url not in self._taken()] or routes[:1]

        async def dial_one(route: Reach, left: int) -> Connection:
            for_others = self._seconds * (left - 1) / len(routes)
            spent = loop.time() - begun + for_others
            return await dial(route, self._name, self._seconds, spent=spent, again=again or left > 1)

        connection = await first_to_answer(routes, dial_one)
        self.found = reach
        return connection

    async def _reach(self) -> Reach:
        """Return where the broker is now; where nothing says that any more, but other brokers are known, as before."""
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
        connection.send(Subscribe(logs=self._logs, fold=True))
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
