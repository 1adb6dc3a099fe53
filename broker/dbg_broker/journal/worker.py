"""Thread with a bounded queue, for the parts of the journal that wait for a disk or a command."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

END_SECONDS = 1.0
"""Maximum time for the items that still wait at the end, in seconds."""

logger = logging.getLogger("dbg_broker")


class WorkerThread(Generic[T]):
    """Thread that handles the items of a bounded queue.

    If the queue is full, a new item is dropped. The number of dropped items is passed to ``handle`` with the next
    items, and again until ``handle`` returns True. Call ``put`` and ``close`` in one thread.
    """

    def __init__(self, name: str, handle: Callable[[list[T], int], bool], *, most: int, at_once: int = 1) -> None:
        """Start the thread.

        Up to ``most`` items wait; ``handle`` gets ``at_once`` of them, and returns False if it lost them.
        """
        self._handle, self._at_once = handle, at_once
        self._waiting: queue.Queue[T | None] = queue.Queue(most)
        self._dropped = self._failed = self._reported = 0
        """Numbers of items that did not fit, items that ``handle`` lost, and lost items that were reported to it."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Number of lost items since the start."""
        return self._dropped + self._failed

    def put(self, item: T) -> None:
        """Queue an item without waiting."""
        try:
            self._waiting.put_nowait(item)
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Handle the waiting items, for END_SECONDS at most."""
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=END_SECONDS)
            self._thread.join(END_SECONDS)

    def _work(self) -> None:
        is_over = False
        while not is_over:
            items = [self._waiting.get()]
            while len(items) < self._at_once and not self._waiting.empty():
                items.append(self._waiting.get_nowait())
            is_over = None in items
            self._pass_on([item for item in items if item is not None])

    def _pass_on(self, items: list[T]) -> None:
        lost = self.lost - self._reported
        if not items and not lost:
            return
        if self._handle(items, lost):
            self._reported += lost
        else:
            self._failed += len(items)
