"""Workers of multiprocessing, and those of its pools that did not end by themselves."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from dbg_agent.process.imports import when_loaded
from dbg_wire.errors import printable
from dbg_wire.records.ranks import signal_name

if TYPE_CHECKING:
    from types import ModuleType

MAX_ENDED = 8
"""Ended workers of pools that are remembered, the last ones."""


class Worker(NamedTuple):
    """A process of multiprocessing; ``status`` is None while it runs, and negative for a signal."""

    pid: int
    name: str
    status: int | None

    @property
    def title(self) -> str:
        """Name and process id."""
        return f"{printable(self.name[:60])} (process {self.pid})"

    @property
    def end(self) -> str:
        """Sentence part about the way in which it has ended."""
        status = self.status or 0
        return f"was killed by {signal_name(-status)}" if status < 0 else f"has ended with status {status}"


_ended: deque[tuple[int, Worker]] = deque(maxlen=MAX_ENDED)
"""Workers of pools that did not end by themselves, with the process that has started them."""


def ended_in_pools() -> list[Worker]:
    """Return the last workers of pools that did not end by themselves: a pool forgets them, and starts others."""
    return [one for pid, one in tuple(_ended) if pid == os.getpid()]


def watch() -> None:
    """Note from now on how workers of pools end; a second call does nothing."""
    when_loaded("multiprocessing.pool", _watch_pools)


def _watch_pools(module: ModuleType) -> None:
    original = module.Pool._join_exited_workers
    if original.__module__ == __name__:
        return

    def join_exited_workers(pool: Any) -> Any:
        with suppress(Exception):
            ended = [one for one in pool if one.exitcode]
            _ended.extend((os.getpid(), Worker(one.pid, one.name, one.exitcode)) for one in ended)
        return original(pool)

    module.Pool._join_exited_workers = staticmethod(join_exited_workers)
