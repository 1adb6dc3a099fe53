"""Threads of ours take no signal of the program, and no thread of ours is started in another way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

import pytest

import dbg_agent
from dbg_agent.process.threads import SIGNAL_SECONDS, BoundedThreads, own_thread, wait_for
from tests.support.time_unit import seconds

BESIDE = {"process/threads.py", "guard/command.py"}
"""Where threads are made otherwise: here, and in the guard, which is a process of its own."""

WAITS_FOR_A_SIGNAL = """\
import os, signal, threading
from dbg_agent.process.threads import own_thread
is_up, may_end = threading.Event(), threading.Event()
own_thread(lambda: is_up.set() or may_end.wait(), "dbg-agent-test").start()
is_up.wait()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigwait({signal.SIGUSR1}).name)
"""


def test_every_signal_is_blocked_in_a_thread_of_ours() -> None:
    blocked: list[set[int]] = []
    thread = own_thread(lambda: blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "dbg-agent-test")
    thread.start()
    thread.join()
    # The kernel lets nobody block these two.
    assert blocked == [signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}]
    assert thread.daemon


def test_a_program_that_waits_for_a_signal_gets_it_and_is_not_ended_by_it() -> None:
    done = subprocess.run([sys.executable, "-c", WAITS_FOR_A_SIGNAL], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "SIGUSR1\n"), done.stderr


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


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    threads, gate = BoundedThreads("dbg-agent-test", 1), threading.Event()
    assert threads.start(gate.wait)
    child = os.fork()
    if child == 0:
        os._exit(0 if threads.start(lambda: None) else 1)
    _, status = os.waitpid(child, 0)
    gate.set()
    assert os.waitstatus_to_exitcode(status) == 0


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
            since = time.monotonic()
            with pytest.raises(Mine):
                wait_for(condition, lambda: False, SIGNAL_SECONDS + seconds(20))
        assert time.monotonic() - since < SIGNAL_SECONDS + seconds(10)
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
        begun = time.monotonic()
        assert wait_for(condition, lambda: bool(came))
        assert time.monotonic() - begun < seconds(SIGNAL_SECONDS)
        assert wait_for(condition, lambda: bool(came), 0.0)
