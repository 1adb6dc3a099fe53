"""Stock debuggers without the agent: those that call the classic port, and those that the broker dials.

Their sockets are not among those of ``net``, as they speak neither HTTP nor the broker's protocol. All methods belong
to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import socket
import threading
from collections import defaultdict, deque

from dbg_broker.classic.callers import FRESH_SECONDS, MAX_CALLERS_OF_ONE, Caller, who_goes
from dbg_broker.classic.connection import CallerTurns, ClassicConnection
from dbg_broker.classic.line import LineSession
from dbg_broker.classic.screen import ScreenSession
from dbg_broker.classic.session import ClassicSession
from dbg_broker.hub import departures, from_ranks
from dbg_broker.hub.state import Hub, refuse
from dbg_dial.waiting import within
from dbg_wire.errors import printable
from dbg_wire.finding.endpoint import is_loopback_host
from dbg_wire.messages import Dialled, RefusalCode

MAX_ENDED = 64
"""Ended sessions that stay listed: anybody may open and end one, and they are to push few ranks off the list."""

MAX_HOST = 63
"""Characters of a host's name, DNS's own bound for a label."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")

logger = logging.getLogger("dbg_broker")

BACKLOG = 1024
"""Connections that the kernel may hold before they are accepted: ranks of one job call at the same moment."""

ACCEPTED_AT_ONCE = 8
"""Connections accepted in one round of the event loop, so that a storm of calls delays no key."""

MAX_LOOKUPS = 8
"""Names of hosts that are looked up at once, each in a thread; beyond it a session is named by its address."""

DIAL_SECONDS = 5.0
"""Seconds for a debugger on this host to accept and show its prompt; one that is silent for longer is listed anyway."""

LOCALHOST = "127.0.0.1"
"""What ``localhost`` means: where ``remote_pdb`` listens."""


class SessionNumbers:
    """Numbers of sessions: each has the smallest number that is free on its host until it ends."""

    def __init__(self) -> None:
        self._taken: defaultdict[str, set[int]] = defaultdict(set)

    def take(self, host: str) -> int:
        """Return a number that no other session on this host has."""
        taken = self._taken[host]
        number = next(number for number in range(1, len(taken) + 2) if number not in taken)
        taken.add(number)
        return number

    def give_back(self, host: str, number: int) -> None:
        """Let the number be taken again."""
        self._taken[host].discard(number)
        if not self._taken[host]:
            del self._taken[host]


def host_name(address: str, own_name: str) -> str:
    """Return the name that ranks on the host with this address most likely use for it.

    It is the short name, or the address if no name is found. The look-up may wait for the network.
    """
    if is_loopback_host(address):
        return short_name(own_name)
    try:
        name = socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]
    except (OSError, UnicodeError):
        return plain_address(address)
    return short_name(name)


def plain_address(address: str) -> str:
    """Return an address as it can stand in a target: dashes replace the colons of IPv6."""
    return _NOT_IN_NAMES.sub("-", address.removeprefix("::ffff:").partition("%")[0])[:MAX_HOST]


def short_name(name: str) -> str:
    """Return a host's name up to its first dot, reduced to what may stand in an address."""
    return _NOT_IN_NAMES.sub("-", name.partition(".")[0])[:MAX_HOST] or "unknown"


class StockSessions:
    """The connections of stock debuggers for a hub; the length is their number.

    ``size`` is the (rows, columns) of their screens, None if unknown.
    """

    def __init__(self, hub: Hub, loop: asyncio.AbstractEventLoop, size: tuple[int, int] | None = None) -> None:
        self.hub = hub
        self.loop = loop
        self._size = size or (0, 0)
        self._own_name = socket.gethostname()
        self._numbers = SessionNumbers()
        self._last_number = 0
        self._connections: dict[int, ClassicConnection] = {}
        self.turns = CallerTurns(self._take_turn, hub.timers)
        self._ended: deque[str] = deque()
        self._dialled: dict[tuple[str, int], ClassicConnection] = {}
        self._dialling: dict[int, asyncio.Task[None]] = {}
        self._lookups = threading.BoundedSemaphore(MAX_LOOKUPS)
        self._server: asyncio.Server | None = None
        hub.dial = self.dial

    def __len__(self) -> int:
        return len(self._connections)

    async def listen(self, listener: socket.socket) -> None:
        """Begin to accept."""
        self._server = await self.loop.create_server(self._accepted, sock=listener, backlog=ACCEPTED_AT_ONCE)
        # asyncio takes its backlog for the number to accept at once, too; the kernel is to hold more.
        listener.listen(BACKLOG)

    async def stop(self) -> None:
        """Stop accepting and end all connections, which ends most programs behind them. A second call does nothing."""
        if self._server is not None:
            self._server.close()
        tasks = tuple(self._dialling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in tuple(self._connections.values()):
            connection.abort()

    def dial(self, terminal: int, host: str, port: int) -> None:
        """Connect to a stock ``remote_pdb`` on the loopback; the terminal is told the session's key, or what failed."""
        if not is_loopback_host(host):
            self._refuse(
                terminal, f"{printable(host, 80)} is no loopback address; the broker dials those of its host only"
            )
        elif not 0 < port < 65536:
            self._refuse(terminal, f"{port} is no port; give one from 1 to 65535")
        elif terminal in self._dialling:
            self._refuse(terminal, "this terminal has the broker dial already; wait for the answer")
        else:
            task = self.loop.create_task(
                self._dial(terminal, LOCALHOST if host.lower() == "localhost" else host.strip("[]"), port)
            )
            self._dialling[terminal] = task
            task.add_done_callback(lambda _: self._dialling.pop(terminal, None))

    # ------------------------------------------------------------------------------------------ the connections' side

    def joined(self, connection: ClassicConnection, address: str) -> None:
        """Take a new connection, or tell it what the broker lacks; close one of too many that no user seems to need."""
        if self.hub.connections.lacks:
            connection.refuse_in_words(self.hub.connections.lacks)
            return
        others = tuple(self._connections.values())
        self._connections[connection.number] = connection
        if len(others) >= MAX_CALLERS_OF_ONE:
            goes = who_goes([self._caller(other) for other in others], self._caller(connection))
            if goes is not None:
                self._send_away(self._connections[-goes.number])
        if connection.number not in self._connections:
            return
        if is_loopback_host(address):
            connection.call.host = short_name(self._own_name)
        elif self._lookups.acquire(blocking=False):
            # A daemon thread, since a name server that doesn't answer must not delay the broker's exit.
            threading.Thread(target=self._look_up, args=(connection, address), daemon=True).start()
        else:
            connection.call.host = plain_address(address)

    def left(self, connection: ClassicConnection) -> None:
        """Forget a connection that has ended, or is about to; a second call does nothing."""
        self.turns.forget(connection.number)
        self._connections.pop(connection.number, None)
        name, connection.call.listed_as = connection.call.listed_as, None
        if name is not None:
            self._numbers.give_back(*name)
        for place in [place for place, dialled in self._dialled.items() if dialled is connection]:
            del self._dialled[place]

    def ended(self, key: str) -> None:
        """Keep a listed session that has ended on the list, and take one off that ended long ago."""
        self._ended.append(key)
        if len(self._ended) > MAX_ENDED and (rank := self.hub.ranks.registry.find(self._ended.popleft())) is not None:
            self.hub.ranks.registry.forget(rank)
            departures.forget(self.hub, rank.key)

    def list_session(self, connection: ClassicConnection, host: str) -> str:
        """Have the hub list a session, and return its key."""
        number = self._numbers.take(host)
        connection.call.listed_as = (host, number)
        connection.link = self.hub.link_rank(connection)
        key = f"classic/{secrets.token_hex(8)}"
        register = connection.session.registration(key, host, number, self.loop.time())
        from_ranks.receive(self.hub, connection.link, register)
        return key

    # ---------------------------------------------------------------------------------------------------------- inner

    def _accepted(self) -> ClassicConnection:
        return self._connection(ScreenSession(self.loop.time(), self._size))

    def _connection(self, session: ClassicSession) -> ClassicConnection:
        # The numbers are negative, as the server gives positive numbers to its connections.
        self._last_number -= 1
        return ClassicConnection(self._last_number, self, session)

    def _caller(self, connection: ClassicConnection) -> Caller:
        rank = connection.link.rank if connection.link is not None else None
        return Caller(
            number=-connection.number,
            party=connection.party,
            drawn=connection.call.drawn,
            is_listed=connection.link is not None,
            is_fresh=self.loop.time() - connection.call.came < FRESH_SECONDS,
            is_attended=rank is not None and bool(self.hub.terminals.seats.viewers(rank.key)),
        )

    def _send_away(self, connection: ClassicConnection) -> None:
        count = len(self._connections) - 1
        logger.warning("%d classic connections are open; the one from %s is closed", count, connection.peer)
        connection.refuse_in_words(f"the broker holds {count} classic connections and can take no more")
        self.left(connection)

    def _take_turn(self, number: int) -> tuple[int, bool]:
        connection = self._connections.get(number)
        return (0, False) if connection is None else connection.take_turn()

    def _look_up(self, connection: ClassicConnection, address: str) -> None:
        """Find a host's name, in a thread of its own."""
        try:
            name = host_name(address, self._own_name)
        finally:
            self._lookups.release()
        # The loop may be closed by now; no session waits for a name then.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._found, connection, name)

    def _found(self, connection: ClassicConnection, name: str) -> None:
        connection.call.host = name
        connection.list_if_ready()

    async def _dial(self, terminal: int, host: str, port: int) -> None:
        place = f"{host}:{port}"
        try:
            connection = self._dialled.get((host, port)) or await self._connect(host, port)
            key = await self._wait_until_listed(connection)
        except TimeoutError:
            self._refuse(terminal, f"nobody accepts at {place} within {DIAL_SECONDS:g} s; is the script waiting there?")
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self._refuse(
                terminal, f"nothing answers at {place} ({reason}); start the script that calls remote_pdb first"
            )
        else:
            if key is None:
                self._refuse(terminal, f"what answers at {place} is no pdb, or has ended")
            elif (link := self.hub.terminals.links.get(terminal)) is not None:
                link.connection.send_message(Dialled(key=key))

    async def _connect(self, host: str, port: int) -> ClassicConnection:
        def made() -> ClassicConnection:
            return self._connection(LineSession(self.loop.time()))

        connecting = self.loop.create_connection(made, host, port)
        _, connection = await within(DIAL_SECONDS, connecting)
        self._dialled[host, port] = connection
        return connection

    async def _wait_until_listed(self, connection: ClassicConnection) -> str | None:
        try:
            return await within(DIAL_SECONDS, asyncio.shield(connection.listed))
        except TimeoutError:
            connection.list_if_ready(anyway=True)
            return connection.listed.result() if connection.listed.done() else None

    def _refuse(self, terminal: int, text: str) -> None:
        link = self.hub.terminals.links.get(terminal)
        if link is not None:
            refuse(link.connection, RefusalCode.CANT_DIAL, text)
