"""Threads of ours take no signal of the program, and no thread of ours is started in another way."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType

import pytest

import dbg_agent
from dbg_agent.process.threads import SIGNAL_SECONDS, BoundedThreads, own_thread, wait_for
from tests.support.time_unit import seconds

BESIDE = {"process/threads.py", "guard/command.py"}
"""Where threads are made otherwise: here, and in the guard, which is a process of its own."""


def test_every_signal_is_blocked_in_a_thread_of_ours() -> None:
    blocked: list[set[int]] = []
    thread = own_thread(lambda: blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "dbg-agent-test")
    thread.start()
    thread.join()
    # The kernel lets nobody block these two.
    assert blocked == [signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}]
    assert thread.daemon


def test_all_threads_of_ours_are_made_so() -> None:
    folder = Path(dbg_agent.__file__).parent
    making = [str(path.relative_to(folder)) for path in folder.rglob("*.py") if "threading.Thread(" in path.read_text()]
    assert set(making) == BESIDE


def test_so_many_threads_work_at_once_and_no_more() -> None:
    threads, gate, done = BoundedThreads("dbg-agent-test", 2), threading.Event(), threading.Semaphore(0)

    def work() -> None:
        gate.wait()
        done.release()

    assert [threads.start(work) for _ in range(3)] == [True, True, False]
    gate.set()
    for _ in range(2):
        done.acquire()
    for thread in [one for one in threading.enumerate() if one.name == "dbg-agent-test"]:
        thread.join()
    assert threads.start(work)


def test_a_thread_that_cannot_start_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, done = BoundedThreads("dbg-agent-test", 1), threading.Event()

    def refuses(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        with pytest.raises(RuntimeError):
            threads.start(done.set)
    assert threads.start(done.set)
    assert done.wait(seconds(10))


class Mine(BaseException):
    """What a signal handler of the program raises."""


def raises(_number: int, _frame: FrameType | None) -> None:
    raise Mine


def test_a_signal_that_another_thread_takes_ends_the_wait_of_the_main_thread() -> None:
    condition, begun = threading.Condition(), threading.Event()

    def take() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        begun.wait()
        # The main thread holds the condition until it waits.
        with condition:
            signal.pthread_kill(threading.get_ident(), signal.SIGALRM)

    former = signal.signal(signal.SIGALRM, raises)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    taking = threading.Thread(target=take)
    taking.start()
    try:
        with condition:
            begun.set()
            with pytest.raises(Mine):
                wait_for(condition, lambda: False, SIGNAL_SECONDS + seconds(20))
    finally:
        taking.join()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        signal.signal(signal.SIGALRM, former)


def test_a_wait_ends_when_it_is_so_or_when_its_time_is_over() -> None:
    condition = threading.Condition()
    came: list[int] = []

    def come() -> None:
        with condition:
            came.append(1)
            condition.notify_all()

    with condition:
        assert not wait_for(condition, lambda: bool(came), 0.01)
        threading.Timer(0.01, come).start()
        assert wait_for(condition, lambda: bool(came))
        assert wait_for(condition, lambda: bool(came), 0.0)
