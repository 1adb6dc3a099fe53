"""The room on a thread's stack that a stop needs, and the recursion limit, which is raised where there is less."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from types import TracebackType

STACK_FRAMES = 100
"""Depth of calls with which a stop begins, imports at its first use included; with less it could break off anywhere."""

DEBUGGER_FRAMES = 500
"""Frames for debuggers and questions, even if the program stops close to the recursion limit: urwid nests a hundred to
draw PuDB, the first import of PuDB nearly as many, and users want to look at a stop in endless recursion."""

SPARE_FRAMES = 17
"""A raised limit is this much higher than asked for, so that it is no round number, as programs set them."""


def make_room(frames: int = STACK_FRAMES) -> Room:
    """Make room for so many calls on the stack, until the returned context ends; raise RecursionError if that fails."""
    room = Room()
    _limit.make_room(room, frames)
    return room


def forget_other_threads() -> None:
    """Forget the rooms of threads that a forked child does not have."""
    _limit.forget_other_threads()


class Room:
    """Room for calls on the stack of the thread that has made it, until this context ends."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        _limit.give_back(self)


class RecursionLimit:
    """The recursion limit of this process, which is one for all threads: raised while a thread needs a higher one.

    The last thread that gives its room back restores the program's own limit. A limit that the program has set
    meanwhile stays.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._rooms: dict[Room, int] = {}
        """The threads that may need the raised limit, by their rooms."""
        self._raised: set[int] = set()
        """The limits that were set here; any other one is the program's own."""
        self._own = 0

    def make_room(self, room: Room, frames: int) -> None:
        """Raise the limit if the calling thread has no room for so many calls; raise RecursionError if that fails."""
        with self._lock:
            if _has_room(frames) and not self._raised:
                return
            self._rooms[room] = threading.get_ident()
            try:
                self._raise(frames)
            except BaseException:
                self.give_back(room)
                raise

    def _raise(self, frames: int) -> None:
        limit = sys.getrecursionlimit()
        if limit not in self._raised:
            self._own = limit
        if not _has_room(frames):
            raised = limit + frames + SPARE_FRAMES
            # It is noted first: a signal handler that stops from here on must not take it for the program's own.
            self._raised.add(raised)
            sys.setrecursionlimit(raised)

    def give_back(self, room: Room) -> None:
        """Restore the program's limit if no other room is left."""
        with self._lock:
            if self._rooms.pop(room, None) is not None:
                self._restore()

    def forget_other_threads(self) -> None:
        """Forget the rooms of all threads but the calling one, and a lock that another thread held at a fork."""
        self._lock = threading.RLock()
        mine = threading.get_ident()
        self._rooms = {room: thread for room, thread in self._rooms.items() if thread == mine}
        self._restore()

    def _restore(self) -> None:
        if self._rooms:
            return
        if sys.getrecursionlimit() in self._raised:
            try:
                sys.setrecursionlimit(self._own)
            except RecursionError:
                self._restore_elsewhere()
                return
        self._raised.clear()

    def _restore_elsewhere(self) -> None:
        """Restore the limit in another thread: this one was beyond it before it came here, by a room of another one."""
        from dbg_agent.process.threads import own_thread

        # Without another thread the next room restores the limit.
        with suppress(RuntimeError):
            own_thread(self._restore_if_unused, "dbg-agent-limit").start()

    def _restore_if_unused(self) -> None:
        with self._lock:
            self._restore()


_limit = RecursionLimit()


def _has_room(frames: int) -> bool:
    return sys.getrecursionlimit() - _depth() >= frames


def _depth() -> int:
    """Return how many calls of this thread count for the recursion limit; the limit itself if Python doesn't tell.

    Python tells it only as it refuses a limit. Before Python 3.12 calls of functions in C count, which have no frames.
    """
    try:
        sys.setrecursionlimit(1)
    except RecursionError as refusal:
        told = str(refusal).partition("recursion depth ")[2].partition(":")[0]
        if told.isdecimal():
            return int(told)
    return sys.getrecursionlimit()
