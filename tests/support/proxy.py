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
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeVar

from tests.support.time_unit import seconds

Direction = Literal["up", "down"]
"""``up`` is towards the target, ``down`` towards the peer that connected to the proxy."""

BOTH: tuple[Direction, Direction] = ("up", "down")

CHUNK = 16384
"""Bytes carried at once; small, so that a throttled direction stays smooth."""

IN_FLIGHT = 64
"""Chunks that a delayed direction holds (1 MiB), as a long link would; then the proxy stops reading."""

T = TypeVar("T")


@dataclass
class Faults:
    """The present faults of one direction."""

    delay: float = 0.0
    jitter: float = 0.0
    rate: float | None = None
    swallow: bool = False


@dataclass
class CutsAfter:
    """Cuts that are still to come: each after ``count`` bytes of one direction."""

    direction: Direction
    count: int
    unclaimed: int
    """Connections that may still come and will be cut."""
    cut: int = 0
    """Connections that were cut so far."""

    def allowance(self) -> dict[Direction, int]:
        """Return the bytes that may pass before a connection that is open or opens now is cut."""
        if not self.unclaimed:
            return {}
        self.unclaimed -= 1
        return {self.direction: self.count}


@dataclass(eq=False)
class Pair:
    """One connection that is carried: whom each direction writes to, and what still passes before it is cut."""

    writers: dict[Direction, asyncio.StreamWriter]
    allowance: dict[Direction, int]
    ended: set[Direction]

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
        self._carried: set[Pair] = set()
        self._pairs: set[asyncio.Task[None]] = set()
        self._accepting = True
        self._cuts_after: CutsAfter | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        self._server: asyncio.Server | None = self._do(self._serve(0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def connections(self) -> int:
        """The number of connections carried now."""
        return len(self._pairs)

    def cut(self) -> None:
        """Reset every connection, and each new one until ``mend``."""
        self._now(self._cut)

    def reset(self) -> None:
        """Reset every connection; a new one is carried at once."""
        self._now(self._reset_all)

    def refuse(self) -> None:
        """Reset every connection, and have the kernel refuse new ones until ``mend``, as if nobody listened."""
        self._do(self._refuse())

    def cut_after(self, count: int, direction: Direction, times: int = 1) -> None:
        """End each open connection once ``count`` more bytes have passed, and so as many new ones, ``times`` in all.

        The receiver sees an end behind these bytes, the sender a reset. Bytes of a new connection are counted from its
        first one, so that a TLS handshake is cut in its middle.
        """
        self._now(lambda: self._begin_cuts_after(count, direction, times))

    @property
    def cut_so_far(self) -> int:
        """The number of connections that ``cut_after`` has ended."""
        return self._cuts_after.cut if self._cuts_after is not None else 0

    def half_close(self, direction: Direction) -> None:
        """Tell the receivers of this direction that no byte follows, and lose what does; new connections are whole."""
        self._now(lambda: self._half_close(direction))

    def mend(self) -> None:
        """End every fault; swallowed bytes stay lost, held bytes flow on, a half-closed connection stays so."""
        self._do(self._mend())

    def delay(self, duration: float, *directions: Direction, jitter: float = 0.0) -> None:
        """Let every byte arrive ``duration`` to ``duration + jitter`` seconds late, in order.

        If no direction is named, both are meant.
        """
        self._set(directions, "delay", duration)
        self._set(directions, "jitter", jitter)

    def throttle(self, bytes_per_second: float | None, *directions: Direction) -> None:
        """Carry no more than ``bytes_per_second``; None lifts the limit."""
        self._set(directions, "rate", bytes_per_second)

    def swallow(self, *directions: Direction) -> None:
        """Lose every byte and every end of a connection, and tell neither side: the connection is half open."""
        self._set(directions, "swallow", True)

    def freeze(self) -> None:
        """Carry nothing and lose nothing, as an unplugged cable, until ``mend``."""
        self._now(self._flowing.clear)

    def close(self) -> None:
        """Drop every connection and stop; return when the thread has ended."""
        self._do(self._shut_down())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds(10))

    def _now(self, act: Callable[[], None]) -> None:
        async def run() -> None:
            act()

        self._do(run())

    def _set(self, directions: tuple[Direction, ...], name: str, value: object) -> None:
        def act() -> None:
            for direction in directions or BOTH:
                setattr(self._faults[direction], name, value)

        self._now(act)

    def _cut(self) -> None:
        self._accepting = False
        self._reset_all()

    def _reset_all(self) -> None:
        for pair in self._carried:
            pair.reset()

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self._reset_all()

    def _begin_cuts_after(self, count: int, direction: Direction, times: int) -> None:
        self._cuts_after = CutsAfter(direction, count, times * max(1, len(self._carried)))
        for pair in self._carried:
            pair.allowance = self._cuts_after.allowance()

    def _half_close(self, direction: Direction) -> None:
        for pair in self._carried:
            pair.ended.add(direction)
            with contextlib.suppress(OSError):
                pair.writers[direction].write_eof()

    async def _mend(self) -> None:
        self._accepting = True
        self._cuts_after = None
        self._faults = {"up": Faults(), "down": Faults()}
        self._flowing.set()
        for pair in self._carried:
            pair.allowance.clear()
        if self._server is None:
            self._server = await self._serve(self.port)

    async def _serve(self, port: int) -> asyncio.Server:
        if not port:
            self._flowing.set()
        return await asyncio.start_server(self._connected, "127.0.0.1", port)

    async def _shut_down(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._pairs:
            task.cancel()
        await asyncio.gather(*self._pairs, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pairs.add(task)
        try:
            if not self._accepting:
                raise ConnectionAbortedError
            await self._carry_pair(reader, writer)
            writer.close()
        except (OSError, asyncio.CancelledError):
            _reset(writer)
        finally:
            self._pairs.discard(task)

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
        allowance = self._cuts_after.allowance() if self._cuts_after is not None else {}
        pair = Pair({"up": there_writer, "down": writer}, allowance, set())
        self._carried.add(pair)
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
            self._carried.discard(pair)

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
            writer.write(data[: max(0, pair.allowance[direction])] if direction in pair.allowance else data)
            await writer.drain()
            await self._cut_when_due(direction, len(data), pair)
            if faults.rate:
                await asyncio.sleep(len(data) / faults.rate)

    async def _cut_when_due(self, direction: Direction, count: int, pair: Pair) -> None:
        """Count what has passed, and raise ConnectionAbortedError if the connection is to be cut here."""
        cuts = self._cuts_after
        if cuts is None or direction not in pair.allowance:
            return
        pair.allowance[direction] -= count
        if pair.allowance[direction] > 0:
            return
        cuts.cut += 1
        # A reset would overtake the bytes that are still on their way to the receiver.
        pair.writers[direction].close()
        await pair.writers[direction].wait_closed()
        pair.reset()
        raise ConnectionAbortedError
