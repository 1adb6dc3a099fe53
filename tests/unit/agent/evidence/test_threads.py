"""What each thread of a real program waits for, and which threads wait for each other."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.evidence import descriptors, process, threads
from dbg_agent.evidence.descriptors import waits_in
from dbg_agent.evidence.process import SystemCall
from dbg_agent.evidence.threads import threads_seen
from dbg_agent.stop.frame_locals import WRITES_THROUGH
from dbg_wire.records.evidence import MAX_WAIT_FRAMES, WaitKind
from tests.conftest import Approved
from tests.support.time_unit import seconds


class _Thread:
    """A thread that goes on as long as the test does."""

    def __init__(self, work: Any) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self.is_over = False
        self._thread = threading.Thread(target=work, args=(self,), name="worker", daemon=True)

    def __enter__(self) -> _Thread:
        self._thread.start()
        assert self.begun.wait(seconds(10))
        return self

    def __exit__(self, *_error: object) -> None:
        self.is_over = True
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
    number = 0
    thread.begun.set()
    # Without a call: a look may find the thread in one.
    while not thread.is_over:
        number += 1


def _wait(thread: _Thread) -> None:
    thread.begun.set()
    thread.ended.wait()


def _deep(thread: _Thread, left: int = MAX_WAIT_FRAMES + 10) -> None:
    if left:
        _deep(thread, left - 1)
    else:
        _wait(thread)


def test_a_thread_that_computes_in_python_says_so() -> None:
    with _Thread(_spin) as thread:
        found = thread.told()
    assert found.kind is WaitKind.PYTHON
    assert re.fullmatch(r"runs Python code \(test_threads\.py:\d+\)", found.text)


def test_a_thread_that_stands_in_a_stop_says_so() -> None:
    with _Thread(_wait) as thread:
        found = thread.told(thread.ident)
    assert (found.kind, found.text) == (WaitKind.DEBUGGER, "stands in a debugger")


def test_a_deep_stack_is_told_by_its_innermost_frames() -> None:
    with _Thread(_deep) as thread:
        found = thread.told()
    assert len(found.frames) == MAX_WAIT_FRAMES
    assert "_deep" in [place.function for place in found.frames]


def test_frames_that_one_answer_has_no_room_for_are_left_out(
    approved: Approved, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = sum(len(place.file) + len(place.function) + 50 for place in threads_seen(None)[0].frames)
    monkeypatch.setattr(threads, "MAX_FRAMES_TEXT", room + 1000)
    with _Thread(_deep) as thread:
        found = thread.told()
        main = threads_seen(None)[0]
    assert found.frames == ()
    approved(found.text)
    assert main.frames


def test_without_time_the_frames_alone_are_told(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_kernel(_thread: int) -> None:
        raise AssertionError("the kernel was asked")

    monkeypatch.setattr(threads, "MAX_SECONDS", -1.0)
    monkeypatch.setattr(threads, "system_call", no_kernel)
    with _Thread(_wait) as thread:
        found = thread.told()
        main = threads_seen(None)[0]
    approved(found.text)
    assert main.is_main


def _trace(_frame: FrameType, event: str, _argument: object) -> Any:
    return _trace if event == "call" else None


def _wait_traced(thread: _Thread) -> None:
    sys.settrace(_trace)
    _wait(thread)


@pytest.mark.skipif(WRITES_THROUGH, reason="from Python 3.13 on, variables of a traced thread are read like others")
def test_of_a_thread_that_is_traced_no_variable_is_read() -> None:
    with _Thread(_wait_traced) as thread:
        found = thread.told()
    assert (found.kind, found.text) == (WaitKind.LOCK, "waits in wait() of threading thread.ended")


def test_a_descriptor_that_is_closed_meanwhile_hides_no_others() -> None:
    first, (reading, writing) = os.pipe(), os.pipe()
    for descriptor in first:
        # The list of descriptors itself takes this number, and is closed before its link is read.
        os.close(descriptor)
    try:
        told = waits_in(SystemCall("read", (reading, 0, 1, 0, 0, 0)))
    finally:
        os.close(reading)
        os.close(writing)
    assert told == (WaitKind.UNKNOWN, "reads a pipe of its own process")


def test_the_other_end_of_a_pipe_is_found_behind_hundreds_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(300)]
    reading, writing = os.pipe()
    kept += [reading, writing]
    try:
        call = SystemCall("read", (reading, 0, 1, 0, 0, 0))
        assert waits_in(call) == (WaitKind.UNKNOWN, "reads a pipe of its own process")
        # Where not all were looked at, nothing is said about the other end.
        monkeypatch.setattr(descriptors, "MAX_OWN_DESCRIPTORS", 300)
        assert waits_in(call) == (WaitKind.UNKNOWN, "reads a pipe")
    finally:
        for descriptor in kept:
            os.close(descriptor)


def test_a_pipe_whose_other_end_nobody_has_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    try:
        call = SystemCall("read", (reading, 0, 1, 0, 0, 0))
        monkeypatch.setattr(descriptors, "children", list)
        assert waits_in(call) == (WaitKind.UNKNOWN, "reads a pipe whose other end is in no child process")
        # A process that may not be looked at may have it.
        monkeypatch.setattr(descriptors, "children", lambda: [2**22 + 1])
        assert waits_in(call) == (WaitKind.UNKNOWN, "reads a pipe")
    finally:
        os.close(reading)


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


NUMBERS = st.integers(0, 2**64 - 1)


@given(
    st.sampled_from([*sorted(process._NAMES.values()), "number 999"]),
    st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
)
def test_any_call_with_any_arguments_is_told(name: str, arguments: tuple[int, ...]) -> None:
    told = waits_in(SystemCall(name, arguments))
    assert told is None or told[1].isprintable()
