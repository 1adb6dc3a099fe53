"""Pool of threads for TLS handshakes: OpenSSL computes without the interpreter's lock, so that the loop goes on.

A thread does the costly part, which ends with the answer to the peer's hello. Those who wait for one are in a fair
queue of addresses, and the threads are given few at the same time: an address that floods delays another one by these.
What follows is a tenth of it, less than a thread costs to be woken, and is done in the loop, in the strangers' time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections import deque
from collections.abc import Callable

from dbg_broker.net.transport import SocketTransport
from dbg_broker.net.turns import Entrance
from dbg_broker.timers import Timers

MAX_THREADS = 3
"""Threads at most: three answer as many peers as the loop can take."""

GIVEN_TO_EACH = 4
"""Handshakes given to a thread at the same time: while the loop has its turn, some are to be there."""


class Handshakes:
    """The TLS handshakes of a server, in steps between which the peer has to say something.

    All methods belong to the event loop's thread.
    """

    def __init__(self, timers: Timers) -> None:
        self._entrance = Entrance(timers, lambda: self._given < self._most)
        # The loop has a processor, too.
        self._count = min(MAX_THREADS, max(1, len(os.sched_getaffinity(0)) - 1))
        self._most = self._count * GIVEN_TO_EACH
        self._given = 0
        self._threads: list[threading.Thread] = []
        self._lent: queue.SimpleQueue[SocketTransport | None] = queue.SimpleQueue()
        self._done: deque[SocketTransport] = deque()
        self._is_told = False

    def submit(self, transport: SocketTransport, address: str, *, is_slow: bool) -> None:
        """Have a thread answer a peer's hello when it is its turn."""
        loop = asyncio.get_running_loop()

        def work(_is_over: Callable[[], bool]) -> bool:
            self._lend(transport, loop)
            return False

        self._entrance.submit(work, address, is_slow=is_slow)

    def close(self) -> None:
        """End the threads."""
        for _ in self._threads:
            self._lent.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _lend(self, transport: SocketTransport, loop: asyncio.AbstractEventLoop) -> None:
        if not transport.lend():
            return
        if len(self._threads) < self._count:
            self._threads.append(threading.Thread(target=self._work, args=(loop,), name="dbg-broker-tls", daemon=True))
            self._threads[-1].start()
        self._given += 1
        self._lent.put(transport)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer hellos until the end; a thread's whole life."""
        while (transport := self._lent.get()) is not None:
            transport.shake()
            self._done.append(transport)
            if not self._is_told:
                self._is_told = True
                # A loop that is closed has forgotten its connections.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._take_done)

    def _take_done(self) -> None:
        # Before the first one is taken: what a thread adds from now on is told anew.
        self._is_told = False
        while self._done:
            self._given -= 1
            self._done.popleft().take_back()
        self._entrance.go_on()
