"""Signals that end a wait."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path
from types import FrameType

from dbg_broker.run.terminal import Wakeup
from tests.support.time_unit import seconds


def wakes(wakeup: Wakeup) -> bool:
    """Return whether the wakeup becomes readable in time, and drain it."""
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    woken = bool(poll.poll(seconds(20) * 1000))
    wakeup.drain()
    return woken


def is_quiet(wakeup: Wakeup) -> bool:
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    return not poll.poll(0)


def test_whatever_came_before_it_began_is_looked_for_once() -> None:
    with Wakeup({}) as wakeup:
        assert wakes(wakeup)
        assert is_quiet(wakeup)


def test_a_signal_wakes_and_is_handled() -> None:
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    with Wakeup({signal.SIGUSR1: note, signal.SIGHUP: note}) as wakeup:
        wakes(wakeup)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert wakes(wakeup)
        os.kill(os.getpid(), signal.SIGHUP)
        assert wakes(wakeup)
        assert is_quiet(wakeup)
    assert came == [signal.SIGUSR1, signal.SIGHUP]


def test_many_signals_block_nobody() -> None:
    with Wakeup({signal.SIGUSR1: lambda *_: None}) as wakeup:
        for _ in range(100_000):
            signal.raise_signal(signal.SIGUSR1)
        assert wakes(wakeup)
        assert is_quiet(wakeup)


def test_afterwards_all_is_as_before() -> None:
    numbers = (signal.SIGINT, signal.SIGCHLD, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with Wakeup({signal.SIGINT: lambda *_: None, signal.SIGHUP: lambda *_: None}) as wakeup:
        read_end = wakeup.fileno()
        assert [signal.getsignal(number) for number in numbers] != before

    assert [signal.getsignal(number) for number in numbers] == before
    assert signal.set_wakeup_fd(-1) == -1
    assert not Path(f"/proc/self/fd/{read_end}").exists()


def test_a_hangup_that_was_set_aside_stays_so() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Wakeup({signal.SIGHUP: lambda *_: None}):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, former)
