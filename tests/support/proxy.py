"""A bad network on loopback: a TCP proxy whose faults a test switches on and off while connections run through it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec

from tests.support.time_unit import seconds

Direction = Literal["up", "down"]
"""``up`` is towards the target, ``down`` towards the peer that connected to the proxy."""

BOTH: tuple[Direction, Direction] = ("up", "down")

CHUNK = 16384
"""Bytes carried at once; small, so that a throttled direction stays smooth."""

IN_FLIGHT = 64
"""Chunks that a delayed direction holds (1 MiB), as a long link would; then the proxy stops reading."""

P = ParamSpec("P")


def in_loop(work: Callable[Concatenate[Proxy, P], Coroutine[Any, Any, None]]) -> Callable[Concatenate[Proxy, P], None]:
    """Have the proxy's thread do the work of a method, and return when it is done."""

    def do(self: Proxy, /, *arguments: P.args, **options: P.kwargs) -> None:
        asyncio.run_coroutine_threadsafe(work(self, *arguments, **options), self._loop).result(seconds(10))

    return do


@dataclass
class Faults:
    """The present faults of one direction."""

    delay: float = 0.0
    jitter: float = 0.0
    rate: float | None = None
    swallow: bool = False


@dataclass(eq=False)
class Pair:
    """One connection that is carried: whom each direction writes to, and what still passes before it is cut."""

    writers: dict[Direction, asyncio.StreamWriter]
    left: dict[Direction, int] = field(default_factory=dict)
    ended: set[Direction] = field(default_factory=set)

    def reset(self) -> None:
        """End both sides with a reset."""
        for writer in self.writers.values():
            _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset, which drops the bytes under way, and not with an orderly end."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Proxy:
    """A thread that carries connections from ``port`` on loopback to ``target``; with ``others`` to each in turn.

    Any thread may call any method. A fault affects open connections too, and is in effect when the method returns.
    """

    def __init__(self, target: tuple[str, int], *others: tuple[str, int]) -> None:
        self._targets = deque((target, *others))
        self._faults: dict[Direction, Faults] = {"up": Faults(), "down": Faults()}
        self._flowing = asyncio.Event()
        self._pairs: set[Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting = True
        self._cuts: dict[Direction, int] = {}
        """The bytes after which a connection is cut, and how many connections may still come that will be."""
        self._cuts_left = 0
        self.cut_so_far = 0
        """The number of connections that ``cut_after`` has ended."""
        self.port = 0
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.mend()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @in_loop
    async def mend(self) -> None:
        """End every fault; swallowed bytes stay lost, held bytes flow on, a half-closed connection stays so."""
        self._accepting = True
        self._cuts = {}
        self._faults = {"up": Faults(), "down": Faults()}
        self._flowing.set()
        for pair in self._pairs:
            pair.left.clear()
        if self._server is None:
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    @in_loop
    async def cut(self) -> None:
        """Reset every connection, and each new one until ``mend``."""
        self._accepting = False
        self._reset_all()

    @in_loop
    async def reset(self) -> None:
        """Reset every connection; a new one is carried at once."""
        self._reset_all()

    @in_loop
    async def refuse(self) -> None:
        """Reset every connection, and have the kernel refuse new ones until ``mend``, as if nobody listened."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._reset_all()

    @in_loop
    async def cut_after(self, count: int, direction: Direction, times: int = 1) -> None:
        """End each open connection once ``count`` more bytes have passed, and so as many new ones, ``times`` in all.

        The receiver sees an end behind these bytes, the sender a reset. Bytes of a new connection are counted from its
        first one, so that a TLS handshake is cut in its middle.
        """
        self._cuts = {direction: count}
        self._cuts_left = times * max(1, len(self._pairs))
        self.cut_so_far = 0
        for pair in self._pairs:
            pair.left = self._take_cut()

    @in_loop
    async def half_close(self, direction: Direction) -> None:
        """Tell the receivers of this direction that no byte follows, and lose what does; new connections are whole."""
        for pair in self._pairs:
            pair.ended.add(direction)
            with contextlib.suppress(OSError):
                pair.writers[direction].write_eof()

    @in_loop
    async def delay(self, duration: float, *directions: Direction, jitter: float = 0.0) -> None:
        """Let every byte arrive ``duration`` to ``duration + jitter`` seconds late, in order.

        If no direction is named, both are meant.
        """
        for direction in directions or BOTH:
            self._faults[direction].delay, self._faults[direction].jitter = duration, jitter

    @in_loop
    async def throttle(self, bytes_per_second: float, *directions: Direction) -> None:
        for direction in directions or BOTH:
            self._faults[direction].rate = bytes_per_second

    @in_loop
    async def swallow(self, *directions: Direction) -> None:
        """Lose every byte and every end of a connection, and tell neither side: the connection is half open."""
        for direction in directions or BOTH:
            self._faults[direction].swallow = True

    @in_loop
    async def freeze(self) -> None:
        """Carry nothing and lose nothing, as an unplugged cable, until ``mend``."""
        self._flowing.clear()

    def close(self) -> None:
        """Drop every connection and stop; return when the thread has ended."""
        self._shut_down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @in_loop
    async def _shut_down(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def _reset_all(self) -> None:
        for pair in self._pairs:
            pair.reset()

    def _take_cut(self) -> dict[Direction, int]:
        """Return what may pass before a connection that is open or opens now is cut; empty if it won't be."""
        if not self._cuts or not self._cuts_left:
            return {}
        self._cuts_left -= 1
        return dict(self._cuts)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if not self._accepting:
                raise ConnectionAbortedError
            await self._carry_pair(reader, writer)
            writer.close()
        except (OSError, asyncio.CancelledError):
            _reset(writer)
        finally:
            self._tasks.discard(task)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the next target that takes the connection, as a load balancer does."""
        for left in range(len(self._targets) - 1, -1, -1):
            self._targets.rotate(-1)
            try:
                return await asyncio.open_connection(*self._targets[-1])
            except OSError:
                if not left:
                    raise
        raise AssertionError("a proxy has a target")

    async def _carry_pair(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await self._open()
        pair = Pair({"up": there_writer, "down": writer}, self._take_cut())
        self._pairs.add(pair)
        ways = [
            asyncio.ensure_future(self._carry("up", reader, pair)),
            asyncio.ensure_future(self._carry("down", there_reader, pair)),
        ]
        try:
            for way in asyncio.as_completed(ways):
                await way
            there_writer.close()
        except BaseException:
            _reset(there_writer)
            raise
        finally:
            for task in ways:
                task.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._pairs.discard(pair)

    async def _carry(self, direction: Direction, reader: asyncio.StreamReader, pair: Pair) -> None:
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(IN_FLIGHT)
        delivery = asyncio.ensure_future(self._deliver(direction, line, pair))
        try:
            due = 0.0
            while True:
                await self._flowing.wait()
                data = await self._read(direction, reader)
                await self._flowing.wait()
                faults = self._faults[direction]
                late = faults.delay + random.uniform(0, faults.jitter)  # noqa: S311
                due = max(due, self._loop.time() + late)
                await line.put((due, data))
                if not data:
                    await delivery
                    return
        finally:
            delivery.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await delivery

    async def _read(self, direction: Direction, reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.read(CHUNK)
        except OSError:
            if not self._faults[direction].swallow:
                raise
            return await asyncio.Future()

    async def _deliver(self, direction: Direction, line: asyncio.Queue[tuple[float, bytes]], pair: Pair) -> None:
        writer = pair.writers[direction]
        while True:
            due, data = await line.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            faults = self._faults[direction]
            if faults.swallow:
                if not data:
                    await asyncio.Future()
                continue
            if not data:
                writer.write_eof()
                return
            if direction in pair.ended:
                continue
            writer.write(data[: pair.left.get(direction, len(data))])
            await writer.drain()
            if direction in pair.left:
                pair.left[direction] -= len(data)
                if pair.left[direction] <= 0:
                    await self._cut_behind(writer, pair)
            if faults.rate:
                await asyncio.sleep(len(data) / faults.rate)

    async def _cut_behind(self, writer: asyncio.StreamWriter, pair: Pair) -> None:
        """Cut a connection once what was written has reached its receiver: a reset would overtake these bytes."""
        self.cut_so_far += 1
        writer.close()
        await writer.wait_closed()
        pair.reset()
        raise ConnectionAbortedError
