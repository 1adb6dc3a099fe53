"""Locks that keep the link's threads at rest during a fork of the program, so that the child finds nothing half done.

A forked child has one thread. A lock that another thread held at the fork stays held in the child forever. OpenSSL has
such locks, and releases the GIL while it acquires them. The C library's name look-up and imports have such locks, too.
A child that then uses TLS itself would hang, even if it never becomes a rank.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from dbg_agent.process.threads import own_thread

T = TypeVar("T")

IMPORT_SECONDS = 5.0
"""Maximum time in seconds that a fork waits for the link's thread to import asyncio and websockets. The import takes
less than one second. It takes longer only if it waits for a module that the forking thread is importing."""

ROUND_SECONDS = 1.0
"""Maximum time in seconds that a fork waits for one round of the event loop. A round takes milliseconds. It takes
longer only if a name server does not answer, or if it waits for a lock of the forking thread."""


class ForkSafety:
    """A lock that the link's thread holds except while it waits for events; a forking thread holds it during a fork.

    Both inner locks are reentrant: the link's thread may fork itself, and a signal handler may fork within a fork.
    """

    def __init__(self) -> None:
        self._busy = threading.RLock()
        # Python's locks are not fair: if the link's thread released one lock and acquired it again at once, a thread
        # that waits to fork might never get it. The forking thread holds this second lock, so that the link's thread
        # waits.
        self._turn = threading.RLock()
        self._round = 0
        self._timed_out: int | None = None

    # ------------------------------------------------------------------------------------------- in the link's thread

    def __enter__(self) -> None:
        with self._turn:
            self._busy.acquire()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._busy.release()

    def release_while_waiting(self) -> None:
        """Release the lock until :meth:`reacquire`: the thread is at rest, and forks need not wait for it."""
        self._busy.release()

    def reacquire(self) -> None:
        """Wait until no thread forks, and become busy again."""
        with self._turn:
            self._busy.acquire()
        self._round += 1

    # ------------------------------------------------------------------------------------- in the thread that forks

    def before_fork(self) -> None:
        """Wait, for a limited time, until the link's thread rests, and then keep it at rest.

        If the wait for a round of the event loop times out, later forks don't wait for the same round again.
        """
        this_round = self._round
        bound = IMPORT_SECONDS if this_round == 0 else ROUND_SECONDS
        deadline = time.monotonic() + (0.0 if this_round == self._timed_out else bound)
        if self._turn.acquire(timeout=max(0.0, deadline - time.monotonic())):
            if self._busy.acquire(timeout=max(0.0, deadline - time.monotonic())):
                return
            self._turn.release()
        self._timed_out = this_round

    def after_fork(self) -> None:
        """Let the link's thread continue; runs in the parent, in the thread that has forked."""
        # release() raises RuntimeError if this thread's wait has timed out.
        with suppress(RuntimeError):
            self._turn.release()
            self._busy.release()


class Lookup:
    """A question that its own thread answers, no matter how long that takes."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self.wake: Callable[[], object] = bool
        """Called in the question's thread once the question is answered."""


class Lookups:
    """Look-ups in threads of their own: of the broker, whose files may be on a silent file system, and of host names.

    A question that has no answer yet is not asked again: other callers wait for the same answer. Each thread is a
    daemon, so the program can end before the answer arrives.
    """

    def __init__(self) -> None:
        self._open: dict[Hashable, Lookup] = {}
        self._quiet = threading.Condition()
        self._timed_out = False

    def start(self, name: Hashable, call: Callable[[], object]) -> Lookup:
        """Make a thread answer a question by ``call``; questions with the same ``name`` are the same question.

        Raise RuntimeError if no thread can be started.
        """
        with self._quiet:
            question = self._open.get(name)
            if question is None:
                question = Lookup()
                own_thread(partial(self._answer, name, question, call), "dbg-agent-lookup").start()
                self._open[name] = question
            return question

    async def ask(self, name: Hashable, call: Callable[[], T], seconds: float) -> T:
        """Return or raise the outcome of ``call``; raise TimeoutError after ``seconds``.

        A deadline or a cancellation ends only this wait, not the question.
        """
        import asyncio

        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended, and nothing waits any more
                loop.call_soon_threadsafe(ended.set)

        question = self.start(name, call)
        question.wake = wake
        if not question.ended.is_set():
            async with asyncio.timeout(seconds):
                await ended.wait()
        if question.error is not None:
            raise question.error.with_traceback(None)
        return question.value  # type: ignore[no-any-return] # the name identifies the question, so it has this type

    def before_fork(self) -> None:
        """Wait, for at most ROUND_SECONDS, until all questions are answered, and block new questions.

        The C library's look-up holds locks that would stay held forever in a forked child. After a wait has timed out,
        forks don't wait again until one of them finds all questions answered.
        """
        self._quiet.acquire()
        bound = 0.0 if self._timed_out else ROUND_SECONDS
        self._timed_out = not self._quiet.wait_for(lambda: not self._open, bound)

    def after_fork(self) -> None:
        """Let questions continue; runs in the parent, in the thread that has forked."""
        self._quiet.release()

    def _answer(self, name: Hashable, question: Lookup, call: Callable[[], object]) -> None:
        try:
            question.value = call()
        except BaseException as error:
            question.error = error
        with self._quiet:
            del self._open[name]
            self._quiet.notify_all()
        question.ended.set()
        question.wake()
