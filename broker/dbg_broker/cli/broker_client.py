"""Broker client for the verbs: finds the broker, connects step by step, and sends requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import dbg_dial.find
from dbg_dial.connect_errors import explain
from dbg_dial.dial import BrokerWebSocket, addresses, first_to_connect, resolve_in_this_thread
from dbg_dial.endpoint import RENDEZVOUS_FILE, Route, TokenRole
from dbg_dial.find import DiscoveryOptions
from dbg_dial.tcp import Address, within
from dbg_wire import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE
from dbg_wire.codec import decode, encode
from dbg_wire.errors import BrokerUnreachable, DbgError, NoBroker, NotABroker, PeerError, Refused, printable
from dbg_wire.messages import Greet, Message, Refusal, Sender, Snapshot, Subscribe, Welcome
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import clamp

T = TypeVar("T")

STEP_SECONDS = 5.0
"""Timeout of one step, in seconds: a resolver that tries a second server takes that long."""


class NotServing(DbgError):
    """Raised if the home does not contain a broker's address."""

    exit_status = 4

    def __init__(self, home: str) -> None:
        super().__init__(home)
        self.home = home

    def __str__(self) -> str:
        where = printable(str(Path(self.home) / RENDEZVOUS_FILE))
        return f"no broker serves this home ({where} does not exist); start `dbg-broker serve`, or set DBG_BROKER"


def find_broker(argument: str | None, home: str, environ: Mapping[str, str], role: TokenRole) -> Route:
    """Return the connection parameters of the broker: the argument, DBG_BROKER, or broker.json in the home.

    Raise NotServing or BadInput, or WrongHost if the broker listens at the loopback address of another host.
    """
    try:
        return dbg_dial.find.find_broker(DiscoveryOptions(role=role, argument_name="the URL"), argument, environ, home)
    except NoBroker:
        raise NotServing(home) from None


class BrokerProbe:
    """One connection to a broker. Call the steps in the order below, each at most once; they raise DbgError.

    Use it in one event loop; looking up a name blocks the loop.
    """

    def __init__(self, reach: Route, path: str = "/client") -> None:
        self._reach = reach
        self._websocket = BrokerWebSocket(reach.endpoint, path)
        self._addresses: Sequence[Address] = ()
        self._socket: socket.socket | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._websocket.abort()
        if self._socket is not None:
            self._socket.close()

    async def look_up(self) -> str:
        """Look up the host's addresses and return them as text."""
        self._addresses = await addresses(self._reach.endpoint, resolve_in_this_thread)
        return ", ".join(dict.fromkeys(str(address[0]) for _, address in self._addresses))

    async def connect(self) -> str:
        """Connect to the first address that answers, and return the port."""
        ends = asyncio.get_running_loop().time() + STEP_SECONDS
        self._socket = await self._step(first_to_connect(self._addresses, STEP_SECONDS, ends))
        return str(self._reach.endpoint.port)

    async def secure(self) -> str:
        """Do the TLS handshake and return the version of TLS."""
        sock, self._socket = self._socket, None
        if sock is None:
            raise BrokerUnreachable(self._reach.endpoint.url, "not connected")
        return await self._step(self._websocket.secure(sock))

    async def compare(self) -> str:
        """Return the fingerprint of the broker's certificate. Raise WrongCertificate if it is not a pinned one."""
        return self._websocket.compare()

    async def present(self) -> str:
        """Request the upgrade with the token, and return the token's source."""
        await self._step(self._websocket.present(self._reach.token))
        return f"from {self._reach.sources['token']}, protocol {PROTOCOL_MAJOR}"

    async def round_trip(self) -> float:
        """Return the duration of a ping and its pong, in seconds."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._step(self._pong())
        return loop.time() - began

    async def greet(self, name: str) -> Welcome:
        """Exchange the first messages, and return the first message of the broker."""
        await self._send(clamp(Greet, minor=PROTOCOL_MINOR, release=RELEASE, name=name))
        message = await self._next()
        if not isinstance(message, Welcome):
            raise NotABroker(self._reach.endpoint.url, "it does not answer `greet` with `welcome`")
        return message

    async def ranks(self) -> list[RankInfo]:
        """Return all ranks of the broker."""
        await self._send(Subscribe(once=True))
        ranks: list[RankInfo] = []
        while True:
            message = await self._next()
            if isinstance(message, Refusal):
                raise Refused(self._reach.endpoint.url, message.text)
            if isinstance(message, Snapshot):
                ranks.extend(message.ranks)
                if message.last:
                    return ranks

    async def _pong(self) -> None:
        await (await self._websocket.ping())

    async def _send(self, message: Message) -> None:
        await self._step(self._websocket.send(encode(message)))

    async def _next(self) -> Message:
        try:
            return decode(await self._step(self._websocket.recv(decode=True)), Sender.BROKER)
        except PeerError as error:
            raise NotABroker(self._reach.endpoint.url, error.reason) from None

    async def _step(self, work: Awaitable[T]) -> T:
        try:
            return await within(STEP_SECONDS, work)
        except Exception as error:
            raise explain(self._reach.endpoint.url, error, STEP_SECONDS) from None
