"""A line to the broker that comes back by itself: a connection, and another one whenever it breaks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from dbg_wire.codec import Input, Output
from dbg_wire.endpoint import Reach
from dbg_wire.errors import DbgError, PeerError
from dbg_wire.messages import Message, Subscribe

from .connection import Connection, Disconnected, dial

FIRST_DELAY = 0.1
"""Seconds before the first redial, at most: a broker that is restarted at once is found at once."""

LONGEST_DELAY = 3.0
"""Seconds between two redials, at most: a person waits for it, and a thousand terminals are still few."""

SETTLED_SECONDS = 5.0
"""Seconds after which a connection counts as good, so that one which breaks at once is redialled ever more slowly."""


@dataclass(frozen=True, slots=True)
class Up:
    """Say that the line stands (again); a snapshot of all ranks follows."""


@dataclass(frozen=True, slots=True)
class Down:
    """Say that the line broke or that one more attempt failed, and why."""

    reason: str


Event = Up | Down | Message | Output


class Line:
    """Deliver what the broker says, over any number of its restarts.

    Belongs to one event loop; one task reads :meth:`next`. Every dial finds the broker anew, so one that comes back
    on another port or with another certificate is followed if ``broker.json`` says so. Every connection subscribes to
    the ranks.
    """

    def __init__(self, find: Callable[[], Reach], name: str, seconds: float) -> None:
        self._find = find
        self._name = name
        self._seconds = seconds
        self._connection: Connection | None = None
        self._attempt = 0
        self._up_since = 0.0

    @property
    def url(self) -> str:
        """Return the address of the broker as last found."""
        return self._connection.endpoint.url if self._connection else "the broker"

    async def open(self) -> None:
        """Dial once. Raises what :func:`find` and :func:`~.connection.dial` raise."""
        await self._dial()

    def send(self, item: Message | Input) -> bool:
        """Queue for the broker; return False, with nothing done, while the line is down."""
        if self._connection is None:
            return False
        self._connection.send(item)
        return True

    async def next(self) -> Event:
        """Return the next event; while the line is down this dials, with growing pauses. Safe to cancel."""
        if self._connection is None:
            return await self._redial()
        try:
            return await self._connection.receive()
        except Disconnected as ended:
            reason = ended.reason
        except PeerError as error:
            reason = str(error)
        await self._hang_up()
        return Down(reason)

    async def close(self) -> None:
        """Send what is queued and close; never an error."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()

    async def _redial(self) -> Event:
        # Full jitter: terminals that lost the same broker must not come back in step.
        await asyncio.sleep(random.uniform(0, min(LONGEST_DELAY, FIRST_DELAY * 2**self._attempt)))  # noqa: S311
        self._attempt = min(self._attempt + 1, 30)
        try:
            await self._dial()
        except DbgError as error:
            return Down(str(error))
        return Up()

    async def _dial(self) -> None:
        # In a thread, since a home directory on a network may hang for minutes.
        reach = await asyncio.to_thread(self._find)
        self._connection = await dial(reach, self._name, self._seconds)
        self._connection.send(Subscribe())
        self._up_since = asyncio.get_running_loop().time()

    async def _hang_up(self) -> None:
        if asyncio.get_running_loop().time() - self._up_since > SETTLED_SECONDS:
            self._attempt = 0
        await self.close()
