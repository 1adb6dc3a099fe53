"""Light ranks by the thousand in one process: they dial as real ones do, answer probes and questions, and come again.

``python -m benchmarks.light_ranks URLS TOKEN COUNT FIRST WORLD`` has COUNT ranks of WORLD, from number FIRST on and
eight to a host, dial the broker that real ranks would dial first of URLS (with commas between). Each time that all are
registered it prints a line of JSON: how long that took, and what came of each attempt. It stays until it is killed.
Each host has a loopback address of its own, as a broker counts by address.

A rank here is a socket, a state and a timer: asyncio's objects would take more of the processor than the broker does.
"""

from __future__ import annotations

import heapq
import json
import select
import selectors
import socket
import ssl
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from urllib.parse import urlsplit

from benchmarks.ends import CHUNK, LONG, PING, PONG, SHORT, TEXT, frame, request
from benchmarks.idle_ranks import PULSE
from dbg_agent.link.dialling import CONNECT_SECONDS, OPEN_SECONDS, Dialler
from dbg_agent.link.fork_safety import Lookups
from dbg_dial.endpoint import parse_endpoint, weight_of
from dbg_wire.codec import decode, encode
from dbg_wire.errors import BrokerUnreachable, ConnectionClosedEarly, DbgError, Refused
from dbg_wire.limits import HANDSHAKE_SECONDS
from dbg_wire.messages import Answer, AnswerBody, Ask, Kind, Sender, body_of
from tests.support.crowd import print_line, stack
from tests.unit.broker.peers import RUNNING, registration, trusting_context

PER_HOST = 8

PROCESS_LATE_SECONDS = 0.1
"""Seconds after which this process has taken what has come for one of its many ranks."""

PROBE = b'{"type":"probe"'
WELCOME = b'{"type":"welcome"'
ASK = b'{"type":"ask"'
"""How the messages begin that a light rank acts on."""

PULSE_FRAME = frame(PULSE)


async def _nowhere() -> None:
    raise NotImplementedError


class LightRank:
    """One rank: its connection, and how it dials."""

    __slots__ = (
        "came",
        "dialler",
        "is_registered",
        "number",
        "out",
        "reads",
        "routes",
        "socket",
        "step",
        "turn",
        "urls",
    )

    def __init__(self, number: int, urls: Sequence[str]) -> None:
        self.number = number
        self.urls = urls
        self.routes: list[str] = []
        """The addresses that are left in this round of attempts."""
        # Its pauses are those of real ranks; it finds nothing.
        self.dialler = Dialler(_nowhere, Lookups())  # type: ignore[arg-type]
        self.is_registered = False
        self.turn = 0
        """Counts steps, so that a timer knows whether it is still wanted."""
        self.drop()

    def drop(self) -> None:
        """Forget a connection."""
        self.socket: socket.socket | None = None
        self.step: Callable[[LightRank], None] | None = None
        self.out = b""
        self.came = bytearray()
        self.reads = False


class Crowd:
    """All ranks of this process, on one selector."""

    def __init__(self, urls: Sequence[str], token: str, first: int, size: int, world: int) -> None:
        self._context = trusting_context() if urls[0].startswith("wss") else None
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, LightRank, int, Callable[[LightRank], None]]] = []
        self._numbers = count()
        self._requests = {url: request(url, "/agent", token) for url in urls}
        endpoints = {(found := parse_endpoint(url, source="")).url: found for url in urls}
        self._ranks = []
        for number in range(first, first + size):
            name = f"4711.0/gpu{number // PER_HOST:05}:{number}"
            order = sorted(endpoints, key=partial(weight_of, name=name), reverse=True)
            self._ranks.append(LightRank(number, order))
        self._world = world
        self._registered = 0
        self._told: Counter[str] = Counter()
        self._began = self._last_report = time.monotonic()

    def run(self) -> None:
        """Dial, and serve until killed."""
        for rank in self._ranks:
            self._after(0.0, rank, self._dial)
        while True:
            wait = None if not self._timers else max(0.0, self._timers[0][0] - time.monotonic())
            for key, _ in self._selector.select(wait):
                self._advance(key.data)
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                _, _, rank, turn, call = heapq.heappop(self._timers)
                if rank.turn == turn:
                    call(rank)

    # ------------------------------------------------------------------------------------------------------- dialling

    def _after(self, seconds: float, rank: LightRank, call: Callable[[LightRank], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), rank, rank.turn, call))

    def _next_step(self, rank: LightRank, step: Callable[[LightRank], None], seconds: float | None) -> None:
        """Go to the next step, which ends the attempt unless it is over within some seconds."""
        rank.turn += 1
        rank.step = step
        if seconds is not None:
            self._after(seconds, rank, self._timed_out)

    def _dial(self, rank: LightRank) -> None:
        rank.turn += 1
        rank.routes = rank.routes or list(rank.urls)
        where = urlsplit(rank.routes[0])
        connected = socket.socket()
        connected.setblocking(False)
        # The kernel chooses the port as it connects, so that one may serve for several brokers.
        connected.setsockopt(socket.IPPROTO_IP, 24, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.bind((source_of(rank.number // PER_HOST), 0))
        rank.socket = connected
        self._told["attempts"] += 1
        connected.connect_ex((where.hostname or "", where.port or 0))
        self._selector.register(connected, selectors.EVENT_WRITE, rank)
        self._next_step(rank, self._connected, CONNECT_SECONDS)

    def _connected(self, rank: LightRank) -> None:
        if rank.socket is None:
            return
        if (error := rank.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) != 0:
            raise OSError(error, "refused")
        rank.dialler.unanswered_since = None
        seconds = OPEN_SECONDS / len(rank.urls)
        if self._context is not None:
            self._selector.unregister(rank.socket)
            rank.socket = self._context.wrap_socket(rank.socket, do_handshake_on_connect=False)
            self._selector.register(rank.socket, selectors.EVENT_WRITE, rank)
        rank.out = self._requests[rank.routes[0]]
        self._next_step(rank, self._shakes_hands if self._context is not None else self._asks, seconds)
        if rank.step is not None:
            rank.step(rank)

    def _shakes_hands(self, rank: LightRank) -> None:
        if isinstance(rank.socket, ssl.SSLSocket):
            rank.socket.do_handshake()
        # The time for the upgrade goes on.
        rank.step = self._asks
        self._asks(rank)

    def _asks(self, rank: LightRank) -> None:
        self._send(rank)
        self._receive(rank)
        head, end, rest = bytes(rank.came).partition(b"\r\n\r\n")
        if not end:
            return
        if b" 101 " not in head[:16]:
            self._refused(rank, head + end)
            return
        rank.came = bytearray(rest)
        number = rank.number
        said = registration(
            number,
            world_size=self._world,
            report=RUNNING,
            key=f"4711.0/crowd/{number}",
            host=f"gpu{number // PER_HOST:05}",
            pid=10_000 + number % PER_HOST,
        )
        rank.out += frame(encode(said))
        self._next_step(rank, self._serves, HANDSHAKE_SECONDS)
        self._serves(rank)

    def _refused(self, rank: LightRank, head: bytes) -> None:
        self._told[f"status {head[9:12].decode()}"] += 1
        self._failed(rank, Refused(rank.routes[0], ""))

    def _timed_out(self, rank: LightRank) -> None:
        if rank.socket is not None and self._is_late(rank.socket):
            # A rank has a process of its own, which would have seen it in time.
            self._after(PROCESS_LATE_SECONDS, rank, self._timed_out)
            return
        name = rank.step.__name__.strip("_") if rank.step is not None else "?"
        self._told[f"timed out: {name}"] += 1
        self._failed(rank, BrokerUnreachable(rank.routes[0], "no answer"))

    def _is_late(self, of: socket.socket) -> bool:
        """Tell whether something has come for a rank that this process has not taken yet."""
        waits = select.poll()
        is_writing = self._selector.get_key(of).events & selectors.EVENT_WRITE
        waits.register(of, select.POLLIN | (select.POLLOUT if is_writing else 0))
        return bool(waits.poll(0))

    def _failed(self, rank: LightRank, error: DbgError | None) -> None:
        """Dial the next broker at once, or all anew after a pause."""
        if rank.socket is not None:
            self._selector.unregister(rank.socket)
            rank.socket.close()
        rank.drop()
        if rank.is_registered:
            if self._registered == len(self._ranks):
                self._began, self._told = time.monotonic(), Counter()
            rank.is_registered = False
            self._registered -= 1
            rank.routes = []
        elif isinstance(error, ConnectionClosedEarly):
            first = rank.routes[0]
            rank.routes = [*(url for url in rank.urls if url != first), first]
        else:
            del rank.routes[0]
        rank.turn += 1
        if rank.routes and not isinstance(error, ConnectionClosedEarly):
            self._dial(rank)
        else:
            self._after(rank.dialler.pause(error), rank, self._dial)

    # -------------------------------------------------------------------------------------------------------- serving

    def _advance(self, rank: LightRank) -> None:
        """Go on as far as possible, and wait for what is needed then."""
        wants = selectors.EVENT_READ
        try:
            if rank.step is not None:
                rank.step(rank)
        except (ssl.SSLWantReadError, BlockingIOError):
            pass
        except ssl.SSLWantWriteError:
            wants = selectors.EVENT_WRITE
        except OSError as error:
            self._told[f"broken: {type(error).__name__}"] += 1
            hung_up = isinstance(error, ConnectionResetError) or "EOF" in str(error)
            self._failed(rank, ConnectionClosedEarly("") if hung_up else BrokerUnreachable("", ""))
            return
        if rank.socket is not None and rank.step is not None:
            wants |= selectors.EVENT_WRITE if rank.out and rank.step != self._shakes_hands else 0
            if self._selector.get_key(rank.socket).events != wants:
                self._selector.modify(rank.socket, wants, rank)

    def _send(self, rank: LightRank) -> None:
        while rank.out and rank.socket is not None:
            rank.out = rank.out[rank.socket.send(rank.out) :]

    def _receive(self, rank: LightRank) -> None:
        if rank.socket is None:
            return
        data = rank.socket.recv(CHUNK)
        if not data:
            raise ConnectionResetError("the broker has hung up")
        rank.came += data

    def _serves(self, rank: LightRank) -> None:
        self._take_frames(rank)
        self._send(rank)
        while True:
            self._receive(rank)
            self._take_frames(rank)
            self._send(rank)

    def _take_frames(self, rank: LightRank) -> None:
        came = rank.came
        while len(came) >= 2:
            size, start = came[1], 2
            if size == SHORT and len(came) >= 4:
                (size,), start = struct.unpack_from("!H", came, 2), 4
            elif size == LONG and len(came) >= 10:
                (size,), start = struct.unpack_from("!Q", came, 2), 10
            elif size >= SHORT:
                return
            if len(came) < start + size:
                return
            kind, payload = came[0] & 0x0F, bytes(came[start : start + size])
            del came[: start + size]
            if kind == PING:
                rank.out += frame(payload, PONG)
            elif kind == TEXT:
                self._act(rank, payload)

    def _act(self, rank: LightRank, message: bytes) -> None:
        if message.startswith(PROBE):
            rank.out += PULSE_FRAME
        elif message.startswith(ASK):
            ask = decode(message.decode(), Sender.BROKER)
            if isinstance(ask, Ask):
                said = Answer(request=ask.request, kind=Kind.VALUE, body=BODY)
                rank.out += frame(encode(said))
        elif message.startswith(WELCOME) and not rank.is_registered:
            rank.turn += 1
            rank.is_registered = True
            rank.routes = []
            self._registered += 1
            rank.dialler.pause(None)
            if self._registered == len(self._ranks):
                self._report()

    def _report(self) -> None:
        took = time.monotonic() - self._began
        print_line(json.dumps({"seconds": round(took, 3), "ranks": self._registered, **self._told}))


STACK = stack(is_missing=False)

BODY = body_of(AnswerBody(text="0.25", digest="d", frames=STACK))


def source_of(host: int) -> str:
    """Return the loopback address of a host."""
    return f"127.{1 + host // 62500}.{host // 250 % 250}.{1 + host % 250}"


def main() -> None:
    """Be a crowd."""
    urls, token, size, first, world = sys.argv[1:]
    Crowd(urls.split(","), token, int(first), int(size), int(world)).run()


if __name__ == "__main__":
    main()
