"""A stopped thread gets its keys and work, and nothing that was meant for another stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from functools import partial
from types import FrameType

import pytest

from dbg_agent.stop.inbox import MAX_WORK, GoOn, Inbox, ProgramRaised, Redraw, RunJob
from dbg_wire.codec import Input


def nothing() -> None:
    """Do nothing."""


def test_work_goes_before_keys_and_in_order() -> None:
    inbox = Inbox()
    inbox.change_driver(1)
    inbox.type(Input(1, 7, 1, 0, b"n"), lambda: (7, 1))
    first, second = RunJob(nothing), GoOn(nothing)
    assert inbox.put(7, first)
    assert inbox.put(7, second)
    assert inbox.next_work_or_keys(7, beyond=0, patience=None) is first
    assert inbox.next_work_or_keys(7, beyond=0, patience=None) is second
    assert inbox.next_work_or_keys(7, beyond=0, patience=None) is None
    assert inbox.peek_keys(9) == b"n"


def test_work_for_an_ended_stop_is_dropped() -> None:
    inbox = Inbox()
    inbox.put(1, GoOn(nothing))
    inbox.put(2, Redraw())
    assert inbox.next_work(2) == Redraw()


def test_what_is_put_for_the_next_stop_while_one_ends_stays() -> None:
    inbox = Inbox()
    inbox.change_driver(1)
    inbox.put(1, RunJob(nothing))
    inbox.type(Input(1, 1, 1, 0, b"nn"), lambda: (1, 1))
    loss = inbox.end(1, lambda: (inbox.put(2, Redraw()), None)[1], "the stop ended")
    assert loss is not None
    assert loss.count == 2
    assert inbox.next_work(2) == Redraw()


def test_the_same_redraw_waits_once_and_the_queue_is_bounded() -> None:
    inbox = Inbox()
    assert all(inbox.put(1, Redraw()) for _ in range(2 * MAX_WORK))
    jobs = [RunJob(partial(setattr, object, "x", number)) for number in range(MAX_WORK)]
    assert [inbox.put(1, job) for job in jobs].count(False) == 1


def test_waiting_ends_with_patience() -> None:
    assert Inbox().next_work_or_keys(1, beyond=0, patience=0.0) is None


def test_work_put_by_another_thread_wakes_the_stopped_one() -> None:
    inbox = Inbox()
    threading.Timer(0.01, inbox.put, (1, Redraw())).start()
    assert inbox.next_work(1) == Redraw()


def test_keys_are_checked_against_the_stop_that_is_current_under_the_lock() -> None:
    inbox = Inbox()
    inbox.change_driver(1)
    loss = inbox.type(Input(1, 1, 1, 0, b"n"), lambda: (None, None))
    assert loss is not None
    assert loss.reason == "the stop it was typed for has ended"


class _OfTheProgramError(Exception):
    pass


@pytest.fixture
def raising_alarm() -> Iterator[None]:
    def handler(_number: int, _frame: FrameType | None) -> None:
        raise _OfTheProgramError

    before = signal.signal(signal.SIGALRM, handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("raising_alarm")
def test_what_a_signal_handler_of_the_program_raises_comes_out_as_the_programs() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    with pytest.raises(ProgramRaised) as raised:
        Inbox().next_work(1)
    assert isinstance(raised.value.error, _OfTheProgramError)


def test_what_lets_a_thread_go_on_is_taken_behind_however_much_other_work() -> None:
    inbox = Inbox()
    while inbox.put(1, RunJob(partial(nothing))):
        pass
    assert inbox.put(1, GoOn(nothing))
    assert [inbox.next_work(1) for _ in range(MAX_WORK + 1)][-1] == GoOn(nothing)
