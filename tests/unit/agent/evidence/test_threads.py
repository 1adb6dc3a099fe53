"""What each thread of a real program waits for, and what is told of those that an exception has ended."""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import sys
import threading
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.evidence import ended_threads, threads
from dbg_agent.evidence.ended_threads import (
    MAX_ENDED,
    handled_exceptions,
    handled_signals,
    kept_exceptions,
    who_used,
)
from dbg_agent.evidence.threads import threads_seen
from dbg_agent.frames.stacks import outward
from dbg_agent.frames.variables import WRITES_THROUGH
from dbg_agent.host import descriptors, process
from dbg_agent.host.descriptors import waits_in
from dbg_agent.host.process import SystemCall
from dbg_wire.records.evidence import MAX_WAIT_FRAMES, WaitKind
from tests.conftest import Approved
from tests.support.time_unit import seconds

# ------------------------------------------------------------------------------------------------------- live threads


class _Thread:
    """A thread that goes on as long as the test does."""

    def __init__(self, work: Any) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=work, args=(self,), name="worker", daemon=True)

    def __enter__(self) -> _Thread:
        self._thread.start()
        assert self.begun.wait(seconds(10))
        return self

    def __exit__(self, *_error: object) -> None:
        self.ended.set()
        self._thread.join()

    @property
    def ident(self) -> int:
        assert self._thread.ident is not None
        return self._thread.ident

    def told(self, halted: int | None = None) -> Any:
        (found,) = [one for one in threads_seen(halted) if one.thread == "worker"]
        return found


def _spin(thread: _Thread) -> None:
    flag = thread.ended.__dict__
    thread.begun.set()
    # Without a call: a look may find the thread in one.
    while not flag["_flag"]:
        pass


def _wait(thread: _Thread) -> None:
    thread.begun.set()
    thread.ended.wait()


def _deep(thread: _Thread, left: int = MAX_WAIT_FRAMES + 10) -> None:
    if left:
        _deep(thread, left - 1)
    else:
        _wait(thread)


def test_a_thread_that_computes_or_stands_in_a_stop_says_so(approved: Approved) -> None:
    with _Thread(_spin) as thread:
        found = thread.told()
    with _Thread(_wait) as thread:
        halted = thread.told(thread.ident)
    assert (found.kind, halted.kind) == (WaitKind.PYTHON, WaitKind.DEBUGGER)
    approved(re.sub(r"py:\d+", "py:<line>", one.text) for one in (found, halted))


def test_a_deep_stack_is_told_by_its_innermost_frames_as_far_as_there_is_room(
    approved: Approved, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = sum(len(place.file) + len(place.function) + 50 for place in threads_seen(None)[0].frames)
    with _Thread(_deep) as thread:
        whole = thread.told()
        monkeypatch.setattr(threads, "MAX_FRAMES_TEXT", room + 1000)
        found = thread.told()
        assert threads_seen(None)[0].frames
    assert len(whole.frames) == MAX_WAIT_FRAMES
    assert "_deep" in [place.function for place in whole.frames]
    assert found.frames == ()
    approved(found.text)


def test_without_time_the_frames_alone_are_told(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_kernel(_thread: int) -> None:
        raise AssertionError("the kernel was asked")

    monkeypatch.setattr(threads, "MAX_SECONDS", -1.0)
    monkeypatch.setattr(threads, "system_call", no_kernel)
    with _Thread(_wait) as thread:
        approved(thread.told().text)


if not WRITES_THROUGH:

    def test_of_a_thread_that_is_traced_no_variable_is_read() -> None:
        def trace(_frame: FrameType, event: str, _argument: object) -> Any:
            return trace if event == "call" else None

        def wait_traced(thread: _Thread) -> None:
            sys.settrace(trace)
            _wait(thread)

        with _Thread(wait_traced) as thread:
            found = thread.told()
        assert found.kind is WaitKind.LOCK
        assert found.text.endswith(" thread.ended")


# -------------------------------------------------------------------------------------------- what a system call reads


def seen_in(call: SystemCall) -> tuple[WaitKind, str]:
    told = waits_in(call)
    assert told is not None
    return told[0], told[1]


def test_a_pipe_whose_other_end_nobody_has_is_told(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    told = []
    # A process that may not be looked at may have it.
    for children in ([], [2**22 + 1]):
        monkeypatch.setattr(descriptors, "children", lambda children=children: children)
        told.append(seen_in(SystemCall("read", (reading, 0, 1, 0, 0, 0))))
    os.close(reading)
    approved(text for _, text in told)


def test_a_socket_of_a_program_with_a_default_time_out_stays_as_it_is() -> None:
    socket.setdefaulttimeout(5.0)
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            descriptor = os.dup(server.fileno())
        os.set_blocking(descriptor, True)
        assert waits_in(SystemCall("accept4", (descriptor, 0, 0, 0, 0, 0))) is not None
        assert os.get_blocking(descriptor)
        os.close(descriptor)
    finally:
        socket.setdefaulttimeout(None)


def test_select_of_the_standard_input_alone_is_a_wait_for_it() -> None:
    told = [seen_in(SystemCall(name, (1, 0, 0, 0, 0, 0))) for name in ("select", "pselect6")]
    assert [text.endswith("(its standard input)") for _, text in told] == [True, True]
    assert seen_in(SystemCall("select", (2, 0, 0, 0, 0, 0)))[0] is WaitKind.SOCKET


NUMBERS = st.integers(0, 2**64 - 1)


@given(st.sampled_from([*sorted(process._NAMES.values()), "number 999"]), st.tuples(*[NUMBERS] * 6))
def test_any_call_with_any_arguments_is_told(name: str, arguments: tuple[int, ...]) -> None:
    told = waits_in(SystemCall(name, arguments))
    assert told is None or told[1].isprintable()


# ------------------------------------------------------------------------------------ threads that have ended by errors


class Loader:
    """Has a queue, which its thread fills."""

    def __init__(self) -> None:
        self.batches: queue.Queue[int] = queue.Queue()

    def produce(self) -> None:
        raise ValueError("broken\nshard")


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Watch threads; return the names of those that the former hook has seen."""
    seen: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args.thread.name))
    ended_threads._ended.clear()
    ended_threads.watch()
    ended_threads.watch()
    yield seen
    ended_threads.unwatch()
    ended_threads._ended.clear()


def end(target: Callable[[], object], name: str = "producer") -> None:
    """Run a thread until it has ended."""
    thread = threading.Thread(target=target, name=name)
    thread.start()
    thread.join()


def without_numbers(text: str) -> str:
    return re.sub(r"\d+ s ago", "<age> ago", re.sub(r"py:\d+", "py:<line>", text))


def told_as_ended() -> dict[str, str]:
    """Return the texts of the threads that are told as ended, by their names."""
    ended = [one for one in threads_seen(None) if one.kind is WaitKind.ENDED]
    return {one.thread: without_numbers(one.text) for one in ended}


def test_a_thread_that_ends_by_an_exception_is_told_after_the_former_hook(
    approved: Approved, watched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    end(Loader().produce)
    end(lambda: None, "calm")
    assert watched == ["producer"]
    assert list(told_as_ended()) == ["producer"]
    approved(told_as_ended().values())
    # A fork has no threads of its parent.
    pid = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: pid)
    assert ended_threads.ended_threads() == []


SHARED: queue.SimpleQueue[int] = queue.SimpleQueue()


@pytest.mark.usefixtures("watched")
def test_who_waits_for_a_queue_learns_which_thread_used_it(approved: Approved) -> None:
    loader, other = Loader(), Loader()

    def shares() -> None:
        SHARED.put(1)
        raise OSError("full")

    end(loader.produce)
    end(shares, "writer")
    assert "thread producer" in who_used(loader.batches)
    assert "thread writer" in who_used(SHARED)
    assert who_used(other.batches) == ""

    def consume() -> None:
        loader.batches.get()

    def text() -> str:
        return next(one.text for one in threads_seen(None) if one.thread == "consumer")

    waiting = threading.Thread(target=consume, name="consumer")
    waiting.start()
    try:
        while "producer" not in text():
            pass
        approved(without_numbers(text()))
    finally:
        loader.batches.put(0)
        waiting.join()


def test_nothing_is_kept_alive_or_raised_and_the_last_ones_count(watched: list[str]) -> None:
    def odd() -> None:
        raise type("Odd", (Exception,), {"__str__": lambda self: 1 / 0})

    end(Loader().produce)
    assert [reference() for one in ended_threads.ended_threads() for reference in one.queues] == [None]
    end(odd, "odd")
    for number in range(MAX_ENDED + 1):
        end(Loader().produce, f"producer-{number}")
    assert list(told_as_ended()) == [f"producer-{number}" for number in range(1, MAX_ENDED + 1)]
    assert len(watched) == MAX_ENDED + 3


def test_a_hook_that_other_code_has_set_stays(watched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def other(args: threading.ExceptHookArgs) -> None:
        watched.append(str(args.exc_type))

    monkeypatch.setattr(threading, "excepthook", other)
    ended_threads.unwatch()
    assert threading.excepthook is other


# -------------------------------------------------------------------------------------- what a thread handles and keeps


class Hostile(OSError):
    """An exception whose methods would run code of the program."""

    def __str__(self) -> str:
        raise SystemExit

    @property
    def args(self) -> Any:  # type: ignore[override]
        raise SystemExit


def test_the_exception_that_a_thread_handles_is_told_without_running_its_code() -> None:
    try:
        raise Hostile("disk full")
    except OSError as error:
        line = error.__traceback__.tb_lineno if error.__traceback__ is not None else 0
        handled = handled_exceptions()[threading.get_ident()]
        (seen,) = [one.text for one in threads_seen(None) if one.kind is WaitKind.HANDLED]
    assert handled == f"Hostile: disk full (test_threads.py:{line})"
    assert seen == f"handles {handled}"
    assert threading.get_ident() not in handled_exceptions()


def test_of_an_error_of_gloo_the_words_are_told_and_not_the_place_in_its_source() -> None:
    place = "/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553"
    try:
        raise RuntimeError(f"[{place}] Connection closed by peer [127.0.0.1]:7081. This is typically")
    except RuntimeError:
        told = handled_exceptions()[threading.get_ident()]
    assert told.startswith("RuntimeError: Connection closed by peer [127.0.0.1]:7081.")


class Saver:
    """Keeps an error that it has met, in an attribute."""

    def __init__(self) -> None:
        self.failure: Exception | None = None

    def look(self) -> list[str]:
        try:
            raise Hostile("disk full")
        except OSError as error:
            self.failure = error
            last = OSError("no space")
            # What is handled is told as that.
            assert list(kept_exceptions([sys._getframe()])) == ["OSError: no space in last"]
        del last
        return list(kept_exceptions([sys._getframe()]))


def test_an_exception_that_was_caught_and_is_kept_is_told_and_one_that_is_not_leaves_nothing() -> None:
    def wraps() -> list[str]:
        failure = urllib.error.URLError(ConnectionRefusedError(111, "refused"))
        assert failure
        return list(kept_exceptions([sys._getframe()]))

    def forgets() -> list[str]:
        with suppress(OSError):
            raise OSError("disk full")
        return list(kept_exceptions([sys._getframe()]))

    (kept,) = Saver().look()
    assert re.fullmatch(r"Hostile: disk full \(test_threads\.py:\d+\) in self\.failure", kept)
    assert wraps() == ["URLError: ConnectionRefusedError: refused in failure"]
    assert forgets() == []


class Preempted:
    """Handles signals in several ways, and looks at itself in each."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def look(self) -> None:
        frames = list(outward(sys._getframe(1)))
        # Another thread looks: it reads a frame as it is.
        end(lambda: self.found.extend(handled_signals(frames)))

    def save(self, number: int, frame: object) -> None:
        self.look()

    def save_all(self, *given: object) -> None:
        self.look()

    def save_bound(self, where: str, number: int, frame: object) -> None:
        self.look()


def test_a_signal_that_is_handled_is_told_and_none_of_a_function_that_is_called_with_a_frame(
    approved: Approved,
) -> None:
    program = Preempted()
    former = signal.getsignal(signal.SIGUSR1)
    try:
        for handler in (program.save, program.save_all, partial(program.save_bound, "disk")):
            signal.signal(signal.SIGUSR1, handler)
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert len(program.found) == 3
    approved(re.sub(r":\d+", "", one) for one in program.found)
    program.save(7, None)
    program.save(7, sys._getframe(1))
    assert len(program.found) == 3
