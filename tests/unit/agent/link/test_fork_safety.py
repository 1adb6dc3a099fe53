"""A fork finds the link's thread at rest, and neither hangs the program nor waits long."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from dbg_agent.link import fork_safety
from dbg_agent.link.dialling import ForkSafeSelector
from dbg_agent.link.fork_safety import ForkSafety
from tests.support.time_unit import seconds

LONG = seconds(60)


class Noted:
    """A lock that calls ``taken`` each time that a fork gets it, and notes of each fork whether it waited and got it.

    Only forks wait with a bound.
    """

    def __init__(self, taken: Callable[[], object] = lambda: None) -> None:
        self._lock, self._taken = threading.RLock(), taken
        self.asked: list[tuple[bool, bool]] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        is_there = self._lock.acquire(blocking, timeout)
        if timeout >= 0:
            self.asked.append((timeout > 0, is_there))
            if is_there:
                self._taken()
        return is_there

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Link:
    """A thread that does one thing after another and is at rest between them."""

    def __init__(self, fork_safety: ForkSafety | None = None) -> None:
        self.fork_safety = fork_safety or ForkSafety()
        self.work_lock = Noted()
        self.fork_safety._busy = self.work_lock  # type: ignore[assignment]
        self.selector = ForkSafeSelector(self.fork_safety, lambda: None)
        self._read, self._write = os.pipe()
        self._ending = False
        self._work: list[Callable[[], object]] = []
        self.selector.register(self._read, 1)
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def do(self, work: Callable[[], object]) -> None:
        self._work.append(work)
        os.write(self._write, b"x")

    def end(self) -> None:
        self.do(lambda: setattr(self, "_ending", True))
        self._thread.join()
        self.selector.close()
        os.close(self._read)
        os.close(self._write)

    def _run(self) -> None:
        with self.fork_safety:
            while not self._ending:
                self.selector.select()
                os.read(self._read, 1)
                self._work.pop(0)()


@pytest.fixture
def link() -> Iterator[Link]:
    with running(Link()) as link:
        yield link


@contextmanager
def running(link: Link) -> Iterator[Link]:
    link.start()
    try:
        yield link
    finally:
        link.end()


@contextmanager
def forking(fork_safety: ForkSafety) -> Iterator[None]:
    """Stand for a fork."""
    fork_safety.before_fork()
    try:
        yield
    finally:
        fork_safety.after_fork()


@contextmanager
def busy(link: Link) -> Iterator[None]:
    """Keep the link's thread in the middle of its work."""
    inside, enough = threading.Event(), threading.Event()

    def work() -> None:
        inside.set()
        enough.wait(LONG)

    link.do(work)
    assert inside.wait(LONG)
    yield
    enough.set()


def test_a_fork_waits_for_the_work_of_the_thread_and_pauses_the_thread_until_it_ends(link: Link) -> None:
    started, ran = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        started.set()
        time.sleep(0.05)
        done.append("work")

    link.do(work)
    assert started.wait(LONG)
    with forking(link.fork_safety):
        assert done == ["work"]
        link.do(ran.set)
        assert not ran.wait(0.05)
    assert ran.wait(LONG)


def test_a_thread_that_is_never_idle_allows_a_fork_between_rounds() -> None:
    begun, ending = threading.Event(), threading.Event()
    rounds: list[int] = []
    seen: list[int] = []

    def taken() -> None:
        seen.append(len(rounds))
        # Time for several rounds, if they could begin.
        threading.Event().wait(0.02)

    fork_safety = ForkSafety()
    fork_safety._turn = Noted(taken)  # type: ignore[assignment]
    with running(Link(fork_safety)) as link:

        def again() -> None:
            begun.set()
            rounds.append(1)
            time.sleep(0.001)
            if not ending.is_set():
                link.do(again)

        link.do(again)
        assert begun.wait(LONG)
        passed = []
        for _ in range(20):
            with forking(link.fork_safety):
                passed.append(len(rounds) - seen[-1])
        ending.set()
    # One round may have begun when the fork got its turn; no other begins after that.
    assert max(passed) <= 1


def test_a_fork_waits_only_once_for_a_round_that_does_not_end(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_safety, "IMPORT_SECONDS", 0.05)
    monkeypatch.setattr(fork_safety, "ROUND_SECONDS", 0.05)
    for _ in range(2):
        with busy(link):
            for _ in range(2):
                with forking(link.fork_safety):
                    pass
    assert link.work_lock.asked == [(True, False), (False, False)] * 2


def test_forks_within_a_fork_and_in_several_threads_keep_the_thread_running(link: Link) -> None:
    def forks() -> None:
        for _ in range(100):
            with forking(link.fork_safety), forking(link.fork_safety):
                pass

    threads = [threading.Thread(target=forks) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ran = threading.Event()
    link.do(ran.set)
    assert ran.wait(LONG)


def test_the_thread_itself_may_fork(link: Link) -> None:
    def fork() -> None:
        with forking(link.fork_safety):
            pass

    ran = threading.Event()
    link.do(fork)
    link.do(ran.set)
    assert ran.wait(LONG)
    assert link.work_lock.asked == [(True, True)]
