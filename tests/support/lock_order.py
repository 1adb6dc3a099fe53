"""A record of which locks of the agent are taken while which others are held; a rank imports it before the agent.

``write(path)`` writes what was seen so far: a line of JSON for each pair of an outer and an inner lock.
"""

from __future__ import annotations

import json
import linecache
import re
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

AGENT = re.compile(r"/agent/dbg_agent/(.*\.py)$")

NAME = re.compile(r"\s*(?:self\.)?(\w+)")

pairs: set[tuple[str, str]] = set()

_held = threading.local()


class Recorded:
    """A lock that notes which other locks the taking thread already holds."""

    def __init__(self, name: str, lock: Any) -> None:
        self._name = name
        self._lock = lock

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self._note()
        taken: bool = self._lock.acquire(blocking, timeout)
        if taken:
            _names().append(self._name)
        return taken

    def release(self) -> None:
        self._lock.release()
        names = _names()
        del names[len(names) - 1 - names[::-1].index(self._name)]

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.release()

    def locked(self) -> bool:
        return bool(self._lock.locked())

    # `threading.Condition` calls these three of its lock, and the agent's console calls the first.

    def _is_owned(self) -> bool:
        return bool(self._lock._is_owned())

    def _release_save(self) -> Any:
        names = _names()
        mine = [name for name in names if name == self._name]
        names[:] = [name for name in names if name != self._name]
        return self._lock._release_save(), mine

    def _acquire_restore(self, saved: Any) -> None:
        state, mine = saved
        self._note()
        self._lock._acquire_restore(state)
        _names().extend(mine)

    def _note(self) -> None:
        pairs.update((outer, self._name) for outer in _names() if outer != self._name)


def _names() -> list[str]:
    if not hasattr(_held, "names"):
        _held.names = []
    names: list[str] = _held.names
    return names


def _recorded(lock: Any) -> Any:
    """Return a lock, recorded if the caller's caller is a module of the agent, under the name that it gets there."""
    frame = sys._getframe(2)
    found = AGENT.search(frame.f_code.co_filename)
    name = NAME.match(linecache.getline(frame.f_code.co_filename, frame.f_lineno))
    return lock if found is None or name is None else Recorded(f"agent/{found[1]} {name[1]}", lock)


def record() -> None:
    """Record the locks that modules of the agent make from here on."""
    make_lock, make_rlock = threading.Lock, threading.RLock

    class RecordedCondition(threading.Condition):
        def __init__(self, lock: Any = None) -> None:
            super().__init__(_recorded(make_rlock()) if lock is None else lock)

    threading.Lock = lambda: _recorded(make_lock())  # type: ignore[assignment]
    threading.RLock = lambda: _recorded(make_rlock())  # type: ignore[assignment]
    threading.Condition = RecordedCondition  # type: ignore[misc]


def write(path: str) -> None:
    Path(path).write_text("".join(f"{json.dumps(pair)}\n" for pair in sorted(pairs)))
