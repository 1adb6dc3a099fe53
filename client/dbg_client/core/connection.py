"""One connection to one broker, as a terminal has it: what is sent never waits, and messages come out decoded."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from websockets.exceptions import ConnectionClosed

from dbg_client.core.patience import in_thread
from dbg_dial.dial import AddressInfos, BrokerWebSocket, Timing, Wording, addresses, explain, open_websocket
from dbg_dial.tcp import connected
from dbg_dial.waiting import SHUTDOWN, within
from dbg_wire import limits
from dbg_wire.codec import Input, Output, UnknownType, decode, decode_data, encode, encode_data
from dbg_wire.errors import BrokerUnreachable, PeerError, Refused
from dbg_wire.finding.endpoint import Endpoint, Reach
from dbg_wire.limits import KIB, SILENT_SECONDS
from dbg_wire.messages import Greet, Message, Refusal, Sender, Welcome
from dbg_wire.records.record import fitted
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

PING_SECONDS = 2.0
"""Seconds between two pings: how soon a terminal notices that its network is gone."""

FLOWING_BYTES = 16 * KIB
"""Bytes within SILENT_SECONDS behind which an answer may just be late; news of a few ranks are far less."""

DEAD_SECONDS = 30.0
"""Seconds of silence that end a connection: a broker of thousands of ranks may be late, but not by that much."""

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


class Silence:
    """The judgement of one connection. ``heard`` is always the number of bytes that have come so far."""

    def __init__(self, now: float) -> None:
        self._answered_at = self._asked_at = now
        self._is_owed = False
        self._heard = 0

    def wants_ping(self, now: float) -> bool:
        """Tell whether a ping is due: none is open, and the last one was sent PING_SECONDS ago."""
        return not self._is_owed and now - self._asked_at >= PING_SECONDS

    def pinged(self, now: float, heard: int) -> None:
        """Note that a ping is sent."""
        self._asked_at, self._is_owed, self._heard = now, True, heard

    def answered(self, now: float) -> None:
        """Note that the last ping is answered."""
        self._answered_at, self._is_owed = now, False

    def update(self, now: float, heard: int) -> None:
        """Note what has come: while much does, the answer is late behind it, and the wait for it begins anew."""
        if self._is_owed and heard - self._heard >= FLOWING_BYTES:
            self._asked_at = self._answered_at = now
            self._heard = heard

    def owed(self, now: float) -> float:
        """Return for how many seconds the answer to a ping is owed; 0 if none is."""
        return now - self._asked_at if self._is_owed else 0.0

    def since(self, now: float) -> float | None:
        """Return when the broker last answered, if that is SILENT_SECONDS ago and it owes an answer; else None."""
        is_silent = self._is_owed and now - self._answered_at >= SILENT_SECONDS
        return self._answered_at if is_silent else None


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
        self._loop = asyncio.get_running_loop()
        self._silence = Silence(self._loop.time())
        self._pinging: asyncio.Future[None] | None = None

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
    def unanswered(self) -> float:
        """Return for how many seconds the broker owes an answer to a ping; 0 if it owes none."""
        return self._silence.owed(self._loop.time())

    @property
    def silent_since(self) -> float | None:
        """Return when the broker last answered a ping, by the event loop's clock; None unless it is silent."""
        return self._silence.since(self._loop.time())

    def ping_when_due(self) -> None:
        """Ask the broker for a sign of life, unless it was asked within PING_SECONDS or owes one."""
        now, heard = self._loop.time(), self._websocket.heard
        self._silence.update(now, heard)
        if not self._silence.wants_ping(now):
            return
        self._silence.pinged(now, heard)
        self._stop_pinging()
        # Not awaited: on a link where nothing goes out any more, that would take for ever.
        self._pinging = asyncio.ensure_future(self._ping())
        self._pinging.add_done_callback(_ignore)

    async def _ping(self) -> None:
        await (await self._websocket.ping())
        self._silence.answered(self._loop.time())

    def abort(self) -> None:
        """End the connection at once."""
        self._websocket.transport.abort()

    async def close(self) -> None:
        """Send what is queued and close; at most CLOSE_SECONDS each, and never an error."""
        self._stop_pinging()
        try:
            await within(limits.CLOSE_SECONDS, self._outbox.join())
        except TimeoutError:
            self._websocket.transport.abort()
        self._sender.cancel()
        await asyncio.gather(self._sender, return_exceptions=True)
        await self._websocket.close()

    def _stop_pinging(self) -> None:
        if self._pinging is not None:
            self._pinging.cancel()

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

    ``spent`` of the ``seconds`` are over already: the search for the broker took them. With ``again`` another attempt
    follows, so each address of the broker gets CONNECT_SECONDS at most.
    Raises BrokerUnreachable if no broker answers within ``seconds``, and WrongCertificate, WrongToken, WrongVersion or
    another Refused if a broker answers that is the wrong one or refuses.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds - spent
    try:
        sock = await _connected(reach, end, CONNECT_SECONDS if again else seconds)
        timing = Timing(opening=max(0.0, end - loop.time()), ping=DEAD_SECONDS / 3, pong=DEAD_SECONDS * 2 / 3)
        websocket = await open_websocket(reach, "/client", sock, timing, WORDING)
    except Exception as error:
        raise explain(reach.endpoint.url, error, seconds, WORDING) from None
    connection = Connection(websocket, reach.endpoint)
    try:
        await _greet(connection, name, seconds)
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


async def _greet(connection: Connection, name: str, seconds: float) -> None:
    url = connection.endpoint.url
    connection.send(fitted(Greet, minor=PROTOCOL_MINOR, release=RELEASE, name=name))
    try:
        answer = await within(seconds, connection.receive())
    except TimeoutError:
        raise BrokerUnreachable(url, f"it let us in and then was silent for {seconds:g} s") from None
    except Disconnected as ended:
        raise BrokerUnreachable(url, ended.reason) from None
    if isinstance(answer, Refusal):
        raise Refused(url, answer.text)
    if not isinstance(answer, Welcome):
        raise PeerError("a broker that does not begin with welcome")
    connection.welcome = answer


def _ignore(done: asyncio.Future[Any]) -> None:
    """Take the error of a ping, of which :meth:`Connection.receive` tells as well."""
    if not done.cancelled():
        done.exception()


def _why_closed(closed: ConnectionClosed) -> str:
    frame = closed.rcvd
    if frame is None:
        return "the connection broke"
    if frame.reason:
        return frame.reason
    return "it shut down" if frame.code == SHUTDOWN else f"it closed the connection with code {frame.code}"
