"""What each thread of a real program waits for, and what is reported of those that an exception has ended."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import urllib.error
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.evidence import threads
from dbg_agent.evidence.threads import threads_seen
from dbg_agent.frames import ended
from dbg_agent.frames.ended import MAX_ENDED, handled_exception
from dbg_agent.frames.variables import WRITES_THROUGH
from dbg_agent.host import process
from dbg_agent.host.descriptors import waits_in
from dbg_agent.host.process import SystemCall
from dbg_client.why.wait_text import wait_text
from dbg_wire.records.evidence import MAX_WAIT_FRAMES, Activity, ActivityInfo, Target, WaitKind
from dbg_wire.records.record import checked
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

    def seen(self, halted: int | None = None) -> Any:
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


def test_a_thread_that_computes_or_is_stopped_is_reported(approved: Approved) -> None:
    with _Thread(_spin) as thread:
        found = thread.seen()
    with _Thread(_wait) as thread:
        halted = thread.seen(thread.ident)
    assert (found.kind, halted.kind) == (WaitKind.PYTHON, WaitKind.DEBUGGER)
    approved(re.sub(r"py:\d+", "py:<line>", wait_text(one.does)) for one in (found, halted))


def test_a_deep_stack_is_cut_to_the_innermost_frames_that_fit(
    approved: Approved, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = sum(len(place.file) + len(place.function) + 50 for place in threads_seen(None)[0].frames)
    with _Thread(_deep) as thread:
        whole = thread.seen()
        monkeypatch.setattr(threads, "MAX_FRAMES_TEXT", room + 1000)
        found = thread.seen()
        assert threads_seen(None)[0].frames
    assert len(whole.frames) == MAX_WAIT_FRAMES
    assert "_deep" in [place.function for place in whole.frames]
    assert found.frames == ()
    approved(wait_text(found.does))


def test_only_the_frames_are_read_without_time_left(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_kernel(_thread: int) -> None:
        raise AssertionError("the kernel was asked")

    monkeypatch.setattr(threads, "MAX_SECONDS", -1.0)
    monkeypatch.setattr(threads, "system_call", no_kernel)
    with _Thread(_wait) as thread:
        approved(wait_text(thread.seen().does))


if not WRITES_THROUGH:

    def test_no_variable_of_a_traced_thread_is_read() -> None:
        def trace(_frame: FrameType, event: str, _argument: object) -> Any:
            return trace if event == "call" else None

        def wait_traced(thread: _Thread) -> None:
            sys.settrace(trace)
            _wait(thread)

        with _Thread(wait_traced) as thread:
            found = thread.seen()
        assert found.kind is WaitKind.LOCK
        assert (found.does.what, found.does.name) == (Activity.THREADING, "thread.ended")


# -------------------------------------------------------------------------------------------- what a system call reads


def seen_in(call: SystemCall) -> ActivityInfo:
    found = waits_in(call)
    assert found is not None
    return found[0]


def test_a_pipe_without_another_end_is_reported() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    wait = seen_in(SystemCall("read", (reading, 0, 1, 0, 0, 0)))
    os.close(reading)
    assert (wait.what, wait.target, wait.processes, wait.kind) == (Activity.READ, Target.PIPE, (), WaitKind.UNKNOWN)


def test_a_socket_keeps_its_blocking_mode_under_a_default_timeout() -> None:
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


def test_select_on_standard_input_alone_is_a_wait_for_input() -> None:
    waits = [seen_in(SystemCall(name, (1, 0, 0, 0, 0, 0))) for name in ("select", "pselect6")]
    assert [(one.what, one.descriptor) for one in waits] == [(Activity.POLL, 0)] * 2
    assert seen_in(SystemCall("select", (2, 0, 0, 0, 0, 0))).kind is WaitKind.SOCKET


NUMBERS = st.integers(0, 2**64 - 1)


@given(st.sampled_from([*sorted(process._NAMES.values()), "number 999"]), st.tuples(*[NUMBERS] * 6))
def test_any_system_call_with_any_arguments_is_described(name: str, arguments: tuple[int, ...]) -> None:
    wait = waits_in(SystemCall(name, arguments))
    assert wait is None or wait_text(checked(wait[0])).isprintable()


# ------------------------------------------------------------------------------------ threads that have ended by errors


def produce() -> None:
    raise ValueError("broken\nshard")


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Watch threads; return the names of those that the former hook has seen."""
    seen: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args.thread.name))
    ended._threads.clear()
    ended.watch()
    ended.watch()
    yield seen
    ended.unwatch()
    ended._threads.clear()


def end(target: Callable[[], object], name: str = "producer") -> None:
    """Run a thread until it has ended."""
    thread = threading.Thread(target=target, name=name)
    thread.start()
    thread.join()


def ended_texts() -> dict[str, str]:
    """Return the texts of the threads that are reported as ended, by their names."""
    rows = [one for one in threads_seen(None) if one.kind is WaitKind.ENDED]
    return {one.thread: re.sub(r"py:\d+", "py:<line>", wait_text(one.does)) for one in rows}


def test_a_thread_ended_by_an_exception_is_reported_after_the_former_hook(
    approved: Approved, watched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    end(produce)
    end(lambda: None, "calm")
    assert watched == ["producer"]
    assert list(ended_texts()) == ["producer"]
    approved(ended_texts().values())
    # A fork has no threads of its parent.
    pid = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: pid)
    assert ended.ended_threads() == []


def test_ended_threads_raise_no_error_and_the_last_ones_are_kept(watched: list[str]) -> None:
    def odd() -> None:
        raise type("Odd", (Exception,), {"__str__": lambda self: 1 / 0})

    end(produce)
    end(odd, "odd")
    for number in range(MAX_ENDED + 1):
        end(produce, f"producer-{number}")
    assert list(ended_texts()) == [f"producer-{number}" for number in range(1, MAX_ENDED + 1)]
    assert len(watched) == MAX_ENDED + 3


def test_a_hook_set_by_other_code_is_kept(watched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def other(args: threading.ExceptHookArgs) -> None:
        watched.append(str(args.exc_type))

    monkeypatch.setattr(threading, "excepthook", other)
    ended.unwatch()
    assert threading.excepthook is other


# ------------------------------------------------------------------------------------------------ what a thread handles


class Hostile(OSError):
    """An exception whose methods would run code of the program."""

    def __str__(self) -> str:
        raise SystemExit

    @property
    def args(self) -> Any:  # type: ignore[override]
        raise SystemExit


def test_the_exception_a_thread_handles_is_read_without_running_its_code() -> None:
    me = threading.get_ident()
    try:
        raise Hostile("disk full")
    except OSError as error:
        line = error.__traceback__.tb_lineno if error.__traceback__ is not None else 0
        handled = handled_exception(me)
        (seen,) = [one.does for one in threads_seen(None) if one.kind is WaitKind.HANDLED]
    assert handled is not None
    name, place = handled
    assert (name, place and place.line) == ("Hostile: disk full", line)
    assert (seen.name, seen.place) == handled
    assert handled_exception(me) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            RuntimeError("[/w/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:7081."),
            "RuntimeError: Connection closed by peer [127.0.0.1]:7081.",
            id="the place in the source of gloo",
        ),
        pytest.param(
            urllib.error.URLError(ConnectionRefusedError(111, "refused")),
            "URLError: ConnectionRefusedError: refused",
            id="the error within another one",
        ),
    ],
)
def test_the_most_informative_text_of_an_error_is_shown(error: Exception, expected: str) -> None:
    try:
        raise error
    except Exception:
        handled = handled_exception(threading.get_ident())
    assert handled is not None
    assert handled[0] == expected
