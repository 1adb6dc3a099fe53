"""Ranks and terminals as raw WebSocket clients that send the messages of a test."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from dbg_broker.broker import Broker as Parts
from dbg_broker.home.certificate import load_own
from dbg_broker.home.tokens import Role, Tokens, load_tokens
from dbg_broker.net.peer import Peer as Connection
from dbg_broker.net.server import Server
from dbg_broker.net.tcp import listen
from dbg_broker.ranks.liveness import ProbeIntervals
from dbg_broker.timers import Timers
from dbg_broker.welcome import Welcomes
from dbg_dial.endpoint import Endpoint
from dbg_dial.tcp import within
from dbg_wire import limits, subprotocol
from dbg_wire.codec import Input, Output, decode, decode_data, encode, encode_data
from dbg_wire.messages import (
    Action,
    Attach,
    Greet,
    Message,
    Mode,
    Question,
    RankReport,
    Register,
    Seat,
    Sender,
    SessionInfo,
    StopInfo,
    Welcome,
)
from dbg_wire.records.ranks import Place, RankState
from tests.support.rank_infos import record_of
from tests.support.time_unit import seconds

SECONDS = seconds(10)
"""Seconds that a test waits for a message that must come; far above the time that it takes on a busy machine."""

WHERE = Place(file="/home/me/train.py", line=41, function="step")
RUNNING = RankReport(state=RankState.RUNNING)
STOP = StopInfo(number=1, reason="breakpoint", where=WHERE, age=0.25, thread="MainThread")
STOPPED = RankReport(
    state=RankState.STOPPED, stop=STOP, session=SessionInfo(number=1, engine="pudb", rows=24, columns=80)
)

M = TypeVar("M", bound=Message)


def registration(number: int = 0, **changes: Any) -> Register:
    """Return the registration of rank ``number`` of a job on one host."""
    fields: dict[str, Any] = {
        "minor": 0,
        "release": "0.1.0",
        "key": f"4711.0/0.0/gpu013:{number}/{8800 + number}",
        "job": "4711.0",
        "run": "0.0",
        "host": "gpu013",
        "rank": number,
        "local_rank": number,
        "world_size": 8,
        "child": None,
        "pid": 8800 + number,
        "ancestors": (8790,),
        "kernel": "another/1",
        "script": "/home/me/train.py",
        "directory": "/home/me",
        "python": "3.11.7",
        "report": STOPPED,
    }
    return record_of(Register, {**fields, **changes})


def attach(key: str, mode: Mode = Mode.DRIVE, **changes: Any) -> Attach:
    """Return a terminal's request to attach to a rank."""
    request = Attach(key=key, mode=mode, rows=40, columns=120, colors=256)
    return request.replace(**changes)


def trusting_context() -> ssl.SSLContext:
    """Return a TLS context that accepts any certificate; a test dials only its own broker."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def cut(websocket: ClientConnection) -> None:
    """Abort a connection without a close frame."""
    websocket.transport.abort()
    await websocket.wait_closed()


class Peer:
    """The rank's or terminal's end of a connection to the broker."""

    def __init__(self, websocket: ClientConnection, sender: Sender) -> None:
        self.websocket = websocket
        self._sender = sender

    async def send(self, message: Message | Output | Input) -> None:
        """Send a message or terminal bytes."""
        await self.websocket.send(encode_data(message) if isinstance(message, (Output, Input)) else encode(message))

    async def send_altered(self, message: Message, **fields: object) -> None:
        """Send a message with some fields replaced, also by values that its class does not allow."""
        await self.websocket.send(json.dumps({**json.loads(encode(message)), **fields}))

    async def next(self) -> Message | bytes:
        """Return the next message or binary frame."""
        # asyncio.wait_for would lose the cancellation of the calling task if a frame came at the same moment.
        frame = await within(SECONDS, self.websocket.recv())
        return decode(frame, Sender.BROKER) if isinstance(frame, str) else frame

    async def expect(self, kind: type[M], so_that: Callable[[M], bool] = lambda _: True) -> M:
        """Return the next message of a kind that fits; skip all that comes before."""
        while True:
            message = await self.next()
            if isinstance(message, kind) and so_that(message):
                return message

    async def all_so_far(self) -> list[Message | bytes]:
        """Return the messages of the broker to a terminal up to the answer to a question that this sends."""
        await self.send(Question(request=8, keys=(), action=Action.WHERE, seconds=1.0))
        messages: list[Message | bytes] = []
        while getattr(message := await self.next(), "request", None) != 8:
            messages.append(message)
        return messages

    async def expect_data(self) -> Output | Input:
        """Return the next terminal bytes; skip all that comes before."""
        while True:
            frame = await self.next()
            if isinstance(frame, bytes):
                return decode_data(frame, Sender.AGENT if self._sender is Sender.CLIENT else Sender.CLIENT)

    async def closed(self) -> tuple[int | None, str | None]:
        """Wait until the connection is closed, and return the close code and reason."""
        await asyncio.wait_for(self.websocket.wait_closed(), SECONDS)
        return self.websocket.protocol.close_code, self.websocket.protocol.close_reason

    async def cut(self) -> None:
        """Abort the connection without a close frame, as the kernel does for a killed process."""
        await cut(self.websocket)


class WatchedServer(Server):
    """A server that sets ``forgot`` when a connection has ended."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.forgot = asyncio.Event()

    def ended(self, peer: Connection) -> None:
        """Forget a connection."""
        super().ended(peer)
        asyncio.get_running_loop().call_soon(self.forgot.set)


class Broker:
    """A broker that runs in the test's event loop."""

    def __init__(self, parts: Parts, server: WatchedServer, tokens: Tokens, endpoint: Endpoint) -> None:
        self.parts = parts
        self.server = server
        self.tokens = tokens
        self.endpoint = endpoint
        self._peers: list[ClientConnection] = []

    @property
    def url(self) -> str:
        """Return the address as a URL, which is plain where a test needs no TLS."""
        url = self.endpoint.url
        return url if self.endpoint.fingerprint is not None else url.replace("wss:", "ws:")

    async def dial(self, path: str, token: str | None, **options: Any) -> ClientConnection:
        """Connect with any token or none; errors of websockets are raised as they are."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        options = {
            "additional_headers": headers,
            "subprotocols": [Subprotocol(subprotocol())],
            "compression": None,
            "ping_interval": None,
            "max_size": None,
            **options,
        }
        if self.endpoint.fingerprint is not None:
            options["ssl"] = trusting_context()
        websocket = await connect(f"{self.url}{path}", **options)
        self._peers.append(websocket)
        return websocket

    async def rank(self, number: int = 0, **changes: Any) -> Peer:
        """Connect and register a rank, and wait for its welcome."""
        peer = Peer(await self.dial("/agent", self.tokens.rank), Sender.AGENT)
        await peer.send(registration(number, **changes))
        await peer.expect(Welcome)
        return peer

    async def terminal(self, name: str = "me@login1", role: Role = Role.DRIVER, **options: Any) -> Peer:
        """Connect and greet as a terminal."""
        peer = Peer(await self.dial("/client", self.tokens.of(role), **options), Sender.CLIENT)
        await peer.send(Greet(minor=0, release="0.1.0", name=name))
        await peer.expect(Welcome)
        return peer

    async def seated(self, key: str, name: str = "me@login1", mode: Mode = Mode.DRIVE, **options: Any) -> Peer:
        """Connect a terminal and attach it to a rank."""
        role = Role.WATCHER if mode is Mode.WATCH else Role.DRIVER
        peer = await self.terminal(name, role, **options)
        await peer.send(attach(key, mode))
        await peer.expect(Seat)
        return peer

    async def left(self, so_that: Callable[[Parts], bool]) -> None:
        """Wait until enough connections have ended that ``so_that`` holds."""
        while not so_that(self.parts):
            self.server.forgot.clear()
            await asyncio.wait_for(self.server.forgot.wait(), SECONDS)

    async def hang_up(self) -> None:
        """End all connections of the test."""
        await asyncio.gather(*(cut(websocket) for websocket in self._peers))


def narrow(broker: Broker) -> socket.socket:
    """Return a connected socket with a small receive buffer in the kernel."""
    connected = socket.socket()
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * limits.KIB)
    connected.connect(("127.0.0.1", broker.endpoint.port))
    return connected


@asynccontextmanager
async def running_broker(
    home: Path, *, tls: bool = False, kernel: str | None = None, intervals: ProbeIntervals | None = None
) -> AsyncIterator[Broker]:
    """Run a broker on a free port of the loopback."""
    loop = asyncio.get_running_loop()
    listener: socket.socket = listen("127.0.0.1", 0)
    tokens = load_tokens(home)
    timers = Timers(loop.time, loop.call_later)
    welcomes = Welcomes(timers.clock, host="login1", pid=4711)
    parts = Parts(timers, tokens, welcomes, kernel=kernel, intervals=intervals)
    shown = load_own(home) if tls else None
    context, fingerprint = (None, None) if shown is None else (shown.context, shown.fingerprint)
    server = WatchedServer(
        listener,
        context,
        timers=timers,
        turns=parts.turns,
        meters=parts.meters,
        capacity=parts.capacity,
        admit=parts.admission.admit,
        opened=parts.admission.opened,
        sweep=parts.sweep,
        sweep_seconds=0.01,
    )
    server.start()
    endpoint = Endpoint(host="127.0.0.1", port=listener.getsockname()[1], fingerprint=fingerprint)
    broker = Broker(parts, server, tokens, endpoint)
    try:
        yield broker
    finally:
        await broker.hang_up()
        await server.stop()
