"""One connection to one broker, as a terminal has it: what is sent never waits, and messages come out decoded."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from websockets.exceptions import ConnectionClosed

from dbg_client.core.patience import in_thread
from dbg_dial.dial import AddressInfos, BrokerWebSocket, Wording, addresses, explain, open_websocket
from dbg_dial.endpoint import Endpoint, Reach
from dbg_dial.tcp import connected
from dbg_dial.waiting import SHUTDOWN, within
from dbg_wire import limits
from dbg_wire.codec import Input, Output, UnknownType, decode, decode_data, encode, encode_data
from dbg_wire.errors import BrokerUnreachable, PeerError, Refused
from dbg_wire.limits import KIB
from dbg_wire.messages import Greet, Message, Refusal, Sender, Welcome
from dbg_wire.records.record import fitted
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

PING_SECONDS = 2.0
"""Seconds between two pings, whose answers show that broker and network are there."""

SILENT_PINGS = 2
"""Intervals between pings without an answer after which the broker is silent: a user sees it within six seconds."""

DEAD_PINGS = 5
"""Intervals without an answer that end a connection: no broker is late by ten seconds, and a network that has lost this
connection may let a new one pass."""

FLOWING_BYTES = 16 * KIB
"""Bytes in one interval behind which an answer may just be late; news of a few ranks are far less."""

CONNECT_SECONDS = 2.0
"""Seconds for the broker's kernel to accept a connection where another attempt follows: the kernel here repeats its
request ever more rarely, and a new attempt sends one at once."""

OUTBOX = 1024
"""Messages that may wait for the socket; keys are bounded before they get here, so more means the broker is stuck."""

WORDING = Wording(
    wrong_certificate="its certificate is {shown}",
    no_tls="it does not speak TLS with us: {why}",
    no_broker="it is no dbg-broker ({why})",
)


class Disconnected(Exception):
    """Say that the connection ended, and why; part of every connection's life and never shown as an error."""

    def __init__(self, reason: str, code: int | None = None) -> None:
        """Name the code of the broker's close, if it closed."""
        super().__init__(reason, code)
        self.reason = reason
        self.code = code


class Connection:
    """Exchange messages with one broker that has said welcome.

    Belongs to one event loop. :meth:`send` never waits: a broker that stops reading fills the outbox, and then the
    connection is closed, so that the keyboard is never stuck behind it.
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
        """Intervals since the last answer to a ping."""
        self._pinging: asyncio.Task[None] | None = None

    def send(self, item: Message | Input) -> None:
        """Queue a message or keys for the broker; lost if the connection ends before they are out."""
        frame = encode_data(item) if isinstance(item, Input) else encode(item)
        try:
            self._outbox.put_nowait(frame)
        except asyncio.QueueFull:
            self._websocket.transport.abort()

    async def receive(self) -> Message | Output:
        """Return what the broker says next; safe to cancel.

        Raises Disconnected when the connection has ended, and PeerError if the broker breaks the protocol. Messages
        of a newer minor are skipped.
        """
        while True:
            try:
                frame = await self._websocket.recv()
            except ConnectionClosed as closed:
                raise Disconnected(_why_closed(closed), closed.rcvd.code if closed.rcvd is not None else None) from None
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
        """Return when the broker last answered a ping, by the event loop's clock, if it is silent; else None."""
        return self._answered_at if self._in_vain >= SILENT_PINGS else None

    async def close(self) -> None:
        """Send what is queued and close; at most CLOSE_SECONDS each, and never an error."""
        try:
            await within(limits.CLOSE_SECONDS, self._outbox.join())
        except TimeoutError:
            self._websocket.transport.abort()
        tasks = [task for task in (self._sender, self._watching, self._pinging) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._websocket.close()

    async def _end_when_dead(self) -> None:
        # It counts intervals and not seconds: a program that was suspended has asked nothing.
        while self._in_vain < DEAD_PINGS:
            if self._pinging is None or self._pinging.done():
                # Not awaited: on a link where nothing goes out any more, that would take for ever.
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


async def dial(reach: Reach, name: str, seconds: float, *, spent: float = 0.0, again: bool = False) -> Connection:
    """Connect, greet as ``name``, and return the connection once the broker has said welcome.

    ``spent`` of the ``seconds`` are over already, or kept for other brokers. With ``again`` another attempt
    follows, so each address of the broker gets CONNECT_SECONDS at most.
    Raises BrokerUnreachable if no broker answers within ``seconds``, and WrongCertificate, WrongToken, WrongVersion or
    another Refused if a broker answers that is the wrong one or refuses.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds - spent
    try:
        sock = await _connected(reach, end, CONNECT_SECONDS if again else seconds)
        websocket = await open_websocket(reach, "/client", sock, max(0.0, end - loop.time()), WORDING)
    except Exception as error:
        raise explain(reach.endpoint.url, error, seconds, WORDING) from None
    connection = Connection(websocket, reach.endpoint)
    try:
        await _greet(connection, name, max(0.0, end - loop.time()), seconds)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _connected(reach: Reach, end: float, patience: float) -> socket.socket:
    """Return a socket that the broker's kernel has accepted; each address gets ``patience`` seconds at most."""
    loop = asyncio.get_running_loop()
    problem: Exception = OSError("its name has no address")

    async def ask(find: Callable[[], AddressInfos]) -> AddressInfos:
        return await in_thread(find, max(0.0, end - loop.time()))

    found = await addresses(reach, ask)
    for left, address in zip(range(len(found), 0, -1), found, strict=True):
        try:
            return await connected(address, min(patience, max(0.0, end - loop.time()) / left))
        except OSError as error:
            problem = error
    raise problem


async def _greet(connection: Connection, name: str, left: float, seconds: float) -> None:
    url = connection.endpoint.url
    connection.send(fitted(Greet, minor=PROTOCOL_MINOR, release=RELEASE, name=name))
    try:
        answer = await within(left, connection.receive())
    except TimeoutError:
        raise BrokerUnreachable(url, f"it let us in and then was silent for {seconds:g} s") from None
    except Disconnected as ended:
        raise BrokerUnreachable(url, ended.reason) from None
    if isinstance(answer, Refusal):
        raise Refused(url, answer.text)
    if not isinstance(answer, Welcome):
        raise PeerError("a broker that does not begin with welcome")
    connection.welcome = answer


def _why_closed(closed: ConnectionClosed) -> str:
    frame = closed.rcvd
    if frame is None:
        return "the connection broke"
    if frame.reason:
        return frame.reason
    return "it shut down" if frame.code == SHUTDOWN else f"it closed the connection with code {frame.code}"
