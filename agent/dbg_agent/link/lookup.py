"""Look-ups in threads of their own: of the broker, whose files may lie on a silent file system, and of host names.

Each thread is a daemon, so the program doesn't wait for it at its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from dbg_agent.link.fork_safety import ROUND_SECONDS
from dbg_agent.process.threads import own_thread
from dbg_dial.find import Opening, Seeker, find_broker
from dbg_wire.errors import SilentFile

if TYPE_CHECKING:
    import asyncio

    from dbg_dial.endpoint import Reach

SLOW_SECONDS = 2.0
"""Seconds after which a file counts as silent; a file of a network file system takes milliseconds."""

MOMENT_SECONDS = 0.2
"""Seconds that a thread of the program waits for a look-up that has just begun: it takes a millisecond."""

broker_overrides: dict[str, str] = {}
"""Variables that say where the broker is, set by ``adopt``; they take precedence over those of the environment."""


def find_ranks_broker(broker: str | None, environ: Mapping[str, str], opening: Opening) -> Reach:
    """Return how a rank reaches the broker now; raise NoBroker, BadInput or WrongHost if that isn't known.

    Blocks as long as the file systems of the home and of up to two files do; ``opening`` gets each path before that.
    """
    seeker = Seeker(
        role="rank",
        argument_name="the argument broker=",
        if_unreadable="look at its mode",
        may_lack_home=True,
        opening=opening,
    )
    return find_broker(seeker, broker, environ)


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

    def outcome(self, seconds: float) -> Reach | Exception:
        """Wait up to ``seconds`` for the last look-up; return its result, its error, or SilentFile.

        It raises nothing itself: an exception that leaves it comes from a signal handler of the program.
        """
        if not self._ended.wait(seconds):
            return SilentFile(self._file or "the broker's address")
        return self._found or SilentFile("the broker's address")

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

    from dbg_dial.waiting import within

    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        # The loop may be closed by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    lookup.begin(tell)
    with suppress(TimeoutError):
        await within(seconds, ended.wait())
    found = lookup.outcome(0.0)
    if isinstance(found, Exception):
        raise found.with_traceback(None)
    return found


T = TypeVar("T")

_Outcome = tuple[Any, BaseException | None]


class Lookups:
    """The questions of the link's event loop. A question that is still open is not asked again, but waited for."""

    def __init__(self) -> None:
        self._open: dict[Hashable, asyncio.Future[_Outcome]] = {}
        self._quiet = threading.Condition()
        self._running = 0
        self._waited_in_vain = False

    async def ask(self, name: Hashable, question: Callable[[], T], seconds: float) -> T:
        """Return what ``question`` returns, or raise what it raises; raise TimeoutError after ``seconds``.

        Questions with the same ``name`` are the same question.
        """
        import asyncio

        asked, loop = self._open.get(name), asyncio.get_running_loop()
        if asked is None or asked.get_loop() is not loop:
            asked = loop.create_future()
            own_thread(partial(self._answer, loop, asked, question), "dbg-agent-lookup").start()
            self._open[name] = asked
            asked.add_done_callback(lambda _: self._open.pop(name, None))
        # A deadline or a cancellation ends only this wait, not the question.
        done, _ = await asyncio.wait({asked}, timeout=seconds)
        if not done:
            raise TimeoutError
        value, error = asked.result()
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return] # by its name it is the answer to this question

    def before_fork(self) -> None:
        """Wait until no question is open, and let no question begin; go on without that after ROUND_SECONDS.

        The C library's look-up holds locks that would stay held for ever in a forked child. After a wait in vain, forks
        don't wait again until no question is open.
        """
        self._quiet.acquire()
        bound = 0.0 if self._waited_in_vain else ROUND_SECONDS
        self._waited_in_vain = not self._quiet.wait_for(lambda: self._running == 0, bound)

    def after_fork(self) -> None:
        """Let questions go on; in the parent, by the thread that has forked."""
        self._quiet.release()

    def _answer(
        self, loop: asyncio.AbstractEventLoop, asked: asyncio.Future[_Outcome], question: Callable[[], object]
    ) -> None:
        with self._quiet:
            self._running += 1
        outcome: _Outcome
        try:
            outcome = question(), None
        except BaseException as error:
            outcome = None, error
        with self._quiet:
            self._running -= 1
            self._quiet.notify_all()

        def tell() -> None:
            if not asked.done():
                asked.set_result(outcome)

        with suppress(RuntimeError):  # the loop has ended, and no task waits any more
            loop.call_soon_threadsafe(tell)
