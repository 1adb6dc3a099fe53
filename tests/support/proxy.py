"""A bad network on loopback: a TCP proxy whose faults a test switches on and off while connections run through it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
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
    rate: float | None = None
    swallow: bool = False


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset, which drops the bytes under way, and not with an orderly end."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Proxy:
    """A thread that carries connections from ``port`` on loopback to ``target``.

    Any thread may call any method. A fault affects open connections too, and is in effect when the method returns.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._faults: dict[Direction, Faults] = {"up": Faults(), "down": Faults()}
        self._flowing = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._pairs: set[asyncio.Task[None]] = set()
        self._accepting = True
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._do(self._serve())
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

    def mend(self) -> None:
        """End every fault; swallowed bytes stay lost, held bytes flow on."""
        self._now(self._mend)

    def delay(self, duration: float, *directions: Direction) -> None:
        """Let every byte arrive ``duration`` seconds late, in both directions if none is named."""
        self._set(directions, "delay", duration)

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
        for writer in self._writers:
            _reset(writer)

    def _mend(self) -> None:
        self._accepting = True
        self._faults = {"up": Faults(), "down": Faults()}
        self._flowing.set()

    async def _serve(self) -> asyncio.Server:
        self._flowing.set()
        return await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def _shut_down(self) -> None:
        self._server.close()
        for task in self._pairs:
            task.cancel()
        await asyncio.gather(*self._pairs, return_exceptions=True)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pairs.add(task)
        self._writers.add(writer)
        try:
            if not self._accepting:
                raise ConnectionAbortedError
            await self._carry_pair(reader, writer)
            writer.close()
        except (OSError, asyncio.CancelledError):
            _reset(writer)
        finally:
            self._writers.discard(writer)
            self._pairs.discard(task)

    async def _carry_pair(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        self._writers.add(there_writer)
        ways = [
            asyncio.ensure_future(self._carry("up", reader, there_writer)),
            asyncio.ensure_future(self._carry("down", there_reader, writer)),
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
            self._writers.discard(there_writer)

    async def _carry(self, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(IN_FLIGHT)
        delivery = asyncio.ensure_future(self._deliver(direction, line, writer))
        try:
            while True:
                await self._flowing.wait()
                data = await self._read(direction, reader)
                await self._flowing.wait()
                await line.put((self._loop.time() + self._faults[direction].delay, data))
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

    async def _deliver(
        self, direction: Direction, line: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
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
            writer.write(data)
            await writer.drain()
            if faults.rate:
                await asyncio.sleep(len(data) / faults.rate)
