"""Waits end when something is so, in time, and by a signal's handler even where the signal ends no wait."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

import pytest

from dbg_agent.process.threads import SIGNAL_SECONDS, wait_for
from tests.support.time_unit import seconds


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
