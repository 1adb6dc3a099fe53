"""A stopped thread gets its keys and work, and nothing that was meant for another stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from functools import partial
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.stop.inbox import MAX_WORK, Inbox, ProgramRaised, Redraw, ResumeThread, RunJob, TypedKeys, unharmed
from dbg_wire.codec import Input
from dbg_wire.limits import MAX_INPUT_PENDING
from tests.conftest import Approved
from tests.support.approved import as_text


def nothing() -> None:
    """Do nothing."""


def test_work_precedes_keys_and_keeps_its_order() -> None:
    inbox = Inbox()
    inbox.change_driver(1)
    inbox.type(Input(1, 7, 1, 0, b"n"), lambda: (7, 1))
    first, second = RunJob(nothing), ResumeThread(nothing)
    assert inbox.put(7, first)
    assert inbox.put(7, second)
    assert inbox.next_work_or_keys(7, beyond=0, timeout=None) is first
    assert inbox.next_work_or_keys(7, beyond=0, timeout=None) is second
    assert inbox.next_work_or_keys(7, beyond=0, timeout=None) is None
    assert inbox.peek_keys(9) == b"n"


def test_work_for_an_ended_stop_is_dropped_and_work_for_the_next_is_kept() -> None:
    inbox = Inbox()
    inbox.change_driver(1)
    inbox.put(1, RunJob(nothing))
    inbox.type(Input(1, 1, 1, 0, b"nn"), lambda: (1, 1))
    loss = inbox.end(1, lambda: (inbox.put(2, Redraw()), None)[1], "the stop ended")
    assert loss is not None
    assert loss.count == 2
    inbox.put(1, ResumeThread(nothing))
    assert inbox.next_work(2) == Redraw()


def test_a_redraw_is_queued_once_and_the_queue_is_bounded() -> None:
    inbox = Inbox()
    assert all(inbox.put(1, Redraw()) for _ in range(2 * MAX_WORK))
    jobs = [RunJob(partial(setattr, object, "x", number)) for number in range(MAX_WORK)]
    assert [inbox.put(1, job) for job in jobs].count(False) == 1
    assert inbox.put(1, ResumeThread(nothing)), "what lets a thread go on is taken behind however much other work"
    assert [inbox.next_work(1) for _ in range(MAX_WORK + 1)][-1] == ResumeThread(nothing)


def test_a_wait_ends_by_timeout_or_by_work_from_another_thread() -> None:
    inbox = Inbox()
    assert inbox.next_work_or_keys(1, beyond=0, timeout=0.0) is None
    threading.Timer(0.01, inbox.put, (1, Redraw())).start()
    assert inbox.next_work(1) == Redraw()


def test_keys_are_checked_against_the_current_stop_under_the_lock(approved: Approved) -> None:
    inbox = Inbox()
    inbox.change_driver(1)
    loss = inbox.type(Input(1, 1, 1, 0, b"n"), lambda: (None, None))
    assert loss is not None
    approved(loss.reason)


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
def test_an_error_of_a_signal_handler_is_raised_as_the_programs() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    with pytest.raises(ProgramRaised) as raised:
        Inbox().next_work(1)
    assert isinstance(raised.value.error, _OfTheProgramError)


def test_our_own_fault_is_not_raised_but_an_error_of_the_program_is() -> None:
    def fails() -> str:
        raise ValueError("ours")

    def raises() -> str:
        raise ProgramRaised(_OfTheProgramError())

    assert unharmed(fails, str) == "ours"
    with pytest.raises(_OfTheProgramError):
        unharmed(raises, str)


def frame(data: bytes, offset: int = 0, *, stop: int = 1, session: int = 1, generation: int = 1) -> Input:
    return Input(session, stop, generation, offset, data)


@pytest.fixture
def keys() -> TypedKeys:
    keys = TypedKeys()
    keys.change_driver(1)
    return keys


def test_typed_keys_are_queued_and_count_as_applied_once_taken(keys: TypedKeys) -> None:
    assert keys.receive(frame(b"nnn"), stop=1, session=1) is None
    assert (keys.peek(2), keys.applied, keys.pending) == (b"nn", 0, 3)
    keys.consume(2)
    assert (keys.peek(9), keys.applied) == (b"n", 2)


def test_a_frame_sent_again_after_a_reconnect_is_not_applied_again(keys: TypedKeys) -> None:
    keys.receive(frame(b"ns"), stop=1, session=1)
    keys.consume(1)
    assert keys.receive(frame(b"s", 1), stop=1, session=1) is None
    assert keys.receive(frame(b"sc", 1), stop=1, session=1) is None
    assert keys.peek(9) == b"sc"


def test_keys_for_an_ended_stop_are_reported_lost(approved: Approved, keys: TypedKeys) -> None:
    loss = keys.receive(frame(b"nn", stop=1), stop=2, session=2)
    approved(as_text(loss))
    assert keys.applied == 2


def test_a_former_drivers_keys_are_refused(approved: Approved, keys: TypedKeys) -> None:
    keys.receive(frame(b"n"), stop=1, session=1)
    approved(as_text(keys.change_driver(2)))
    loss = keys.receive(frame(b"c", 1, generation=1), stop=1, session=1)
    assert loss is not None
    assert loss.count == 1
    assert keys.pending == 0


def test_too_many_keys_typed_ahead_are_dropped_whole(keys: TypedKeys) -> None:
    half = b"x" * (MAX_INPUT_PENDING // 2 + 1)
    assert keys.receive(frame(half), stop=1, session=1) is None
    loss = keys.receive(frame(half, len(half)), stop=1, session=1)
    assert loss is not None
    assert (loss.count, keys.pending, keys.applied) == (2 * len(half), 0, 2 * len(half))


@given(st.lists(st.tuples(st.sampled_from(["type", "resend", "take", "end"]), st.binary(min_size=1, max_size=5))))
def test_every_byte_is_applied_or_lost_exactly_once_and_in_order(steps: list[tuple[str, bytes]]) -> None:
    keys, typed, applied, lost, stop = TypedKeys(), bytearray(), bytearray(), 0, 1
    keys.change_driver(1)
    for what, data in steps:
        if what == "type":
            keys.receive(frame(data, len(typed), stop=stop), stop=stop, session=1)
            typed += data
        elif what == "resend":
            offset = keys.applied
            if typed[offset:]:
                keys.receive(frame(bytes(typed[offset:]), offset, stop=stop), stop=stop, session=1)
        elif what == "take":
            taken = keys.peek(len(data))
            applied += taken
            keys.consume(len(taken))
        else:
            loss = keys.discard("the stop ended")
            lost += loss.count if loss else 0
            stop += 1
    assert len(applied) + lost + keys.pending == len(typed)
    assert keys.applied == len(applied) + lost
    assert keys.received == len(typed)
    rest = iter(bytes(typed))
    assert all(byte in rest for byte in applied), "applied bytes are a subsequence of what was typed"
