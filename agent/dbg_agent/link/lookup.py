"""The look-up of the broker in a thread of its own: a file system that doesn't answer blocks only that thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from dbg_agent.own_threads import own_thread
from dbg_dial.find import Opening, Seeker, find_broker, read_if_there, read_secret
from dbg_wire.errors import BadSecretFile, SilentFile, printable

if TYPE_CHECKING:
    from dbg_wire.finding.endpoint import Reach

SLOW_SECONDS = 2.0
"""Seconds after which a file counts as silent; a file of a network file system takes milliseconds."""

MOMENT_SECONDS = 0.2
"""Seconds that a thread of the program waits for a look-up that has just begun: it takes a millisecond."""

told: dict[str, str] = {}
"""Variables that say where the broker is, and go before those of the program's environment; ``adopt`` tells them."""


def find_ranks_broker(broker: str | None, environ: Mapping[str, str], opening: Opening) -> Reach:
    """Return how a rank reaches the broker now; raise NoBroker, BadInput or WrongHost if that isn't known.

    Blocks as long as the file systems of the home and of up to two files do; ``opening`` gets each path before that.
    """
    seeker = Seeker(
        role="rank",
        who="rank",
        argument_name="the argument broker=",
        read_rendezvous=lambda path: read_if_there(path, read_secret, partial(_unreadable, path)),
        read_token=read_secret,
        may_lack_home=True,
        opening=opening,
    )
    return find_broker(seeker, broker, environ)


def _unreadable(path: str, error: OSError) -> BadSecretFile:
    return BadSecretFile(f"{printable(path)} can't be read ({type(error).__name__})", "look at its mode")


class Lookup:
    """Repeated look-ups of the broker, one at a time; from any thread."""

    def __init__(self, find: Callable[[Opening], Reach]) -> None:
        """Begin no look-up yet; ``find`` returns where the broker is, or raises an error that says why it can't."""
        self._find = find
        self._lock = threading.Lock()
        self._is_looking = False
        self._ended = threading.Event()
        self._when_ended: Callable[[], None] | None = None
        self._file: str | None = None
        self._found: Reach | Exception | None = None

    def begin(self, when_ended: Callable[[], None] | None = None) -> None:
        """Start a look-up unless one is going on, and return at once.

        ``when_ended`` is called when the look-up ends, in its thread. Raise RuntimeError if no thread can be started.
        """
        with self._lock:
            self._when_ended = when_ended
            if self._is_looking:
                return
            self._is_looking = True
            self._ended.clear()
        try:
            own_thread(self._look, "dbg-agent-lookup").start()
        except BaseException:
            self._is_looking = False
            raise

    def result(self, seconds: float) -> Reach:
        """Wait up to ``seconds`` for the last look-up; return its result, raise its error, or raise SilentFile."""
        if not self._ended.wait(seconds):
            raise SilentFile(self._file or "the broker's address")
        found = self._found
        if isinstance(found, Exception):
            raise found.with_traceback(None)
        if found is None:
            raise SilentFile("the broker's address")
        return found

    def _look(self) -> None:
        self._file = None
        try:
            self._found = self._find(self._opening)
        except Exception as error:
            self._found = error
        with self._lock:
            self._is_looking = False
            self._ended.set()
            call = self._when_ended
        if call is not None:
            call()

    def _opening(self, path: str) -> None:
        self._file = path


async def find(lookup: Lookup, seconds: float | None) -> Reach:
    """Return where the broker is; raise DbgError, or SilentFile if that takes longer than ``seconds``.

    A look-up that is going on is waited for, and no second one is started.
    """
    import asyncio

    from dbg_dial.deadline import within

    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        # The loop may be closed by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    lookup.begin(tell)
    with suppress(asyncio.TimeoutError):
        await within(seconds, ended.wait())
    return lookup.result(0.0)
