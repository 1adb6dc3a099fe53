"""Threads that an exception has ended: what is told of them, and who waits for a queue that they used."""

from __future__ import annotations

import os
import queue
import re
import signal
import sys
import threading
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from dbg_agent.evidence import ended_threads
from dbg_agent.evidence.ended_threads import (
    MAX_ENDED,
    handled_exceptions,
    handled_signals,
    kept_exceptions,
    who_used,
)
from dbg_agent.evidence.threads import threads_seen
from dbg_agent.stop.stacks import outward
from dbg_wire.records.evidence import WaitKind
from tests.conftest import Approved

SHARED: queue.SimpleQueue[int] = queue.SimpleQueue()


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


def told() -> list[tuple[str, str]]:
    """Return the names and texts of the threads that are told as ended."""
    return [(one.thread, one.text) for one in threads_seen(None) if one.kind is WaitKind.ENDED]


def test_a_thread_that_ends_by_an_exception_is_told_after_the_former_hook(watched: list[str]) -> None:
    end(Loader().produce)
    end(lambda: None, "calm")

    ((name, text),) = told()
    assert watched == ["producer"]
    assert name == "producer"
    assert text.startswith("ended by ValueError: broken shard (test_ended_threads.py:")


def test_who_waits_for_a_queue_learns_which_thread_used_it(watched: list[str]) -> None:
    loader, other = Loader(), Loader()

    def shares() -> None:
        SHARED.put(1)
        raise OSError("full")

    end(loader.produce)
    end(shares, "writer")

    assert watched == ["producer", "writer"]
    assert who_used(loader.batches).startswith(" of thread producer, which ended by ValueError: broken")
    assert who_used(SHARED).startswith(" of thread writer, which ended by OSError: full")
    assert who_used(other.batches) == ""


def test_the_rule_of_a_queue_names_the_thread(approved: Approved, watched: list[str]) -> None:
    loader = Loader()
    end(loader.produce)

    def consume() -> None:
        loader.batches.get()

    waiting = threading.Thread(target=consume, name="consumer")
    waiting.start()
    try:
        while not (text := next(one.text for one in threads_seen(None) if one.thread == "consumer")).startswith(
            "waits"
        ):
            pass
    finally:
        loader.batches.put(0)
        waiting.join()

    assert watched == ["producer"]
    approved(text)


def test_nothing_is_kept_alive_or_raised_and_the_last_ones_count(watched: list[str]) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError

    def odd() -> None:
        raise Odd

    end(Loader().produce)
    assert [reference() for one in ended_threads.ended_threads() for reference in one.queues] == [None]
    end(odd, "odd")
    for number in range(MAX_ENDED + 1):
        end(Loader().produce, f"producer-{number}")
    assert [name for name, _ in told()] == [f"producer-{number}" for number in range(1, MAX_ENDED + 1)]
    assert len(watched) == MAX_ENDED + 3


def test_a_fork_has_no_threads_of_its_parent(watched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    end(Loader().produce)
    pid = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: pid)
    assert (watched, ended_threads.ended_threads()) == (["producer"], [])


def test_a_hook_that_other_code_has_set_stays(watched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def other(args: threading.ExceptHookArgs) -> None:
        watched.append(str(args.exc_type))

    monkeypatch.setattr(threading, "excepthook", other)
    ended_threads.unwatch()
    assert threading.excepthook is other


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
    assert handled == f"Hostile: disk full (test_ended_threads.py:{line})"
    assert seen == f"handles {handled}"
    assert threading.get_ident() not in handled_exceptions()


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
    (kept,) = Saver().look()
    assert re.fullmatch(r"Hostile: disk full \(test_ended_threads\.py:\d+\) in self\.failure", kept)

    def forgets() -> list[str]:
        with suppress(OSError):
            raise OSError("disk full")
        return list(kept_exceptions([sys._getframe()]))

    assert forgets() == []


def test_an_exception_that_was_made_of_another_one_is_told_with_it() -> None:
    def wraps() -> list[str]:
        failure = urllib.error.URLError(ConnectionRefusedError(111, "refused"))
        assert failure
        return list(kept_exceptions([sys._getframe()]))

    assert wraps() == ["URLError: ConnectionRefusedError: refused in failure"]


class Preempted:
    """Handles signals in several ways, and looks at itself in each."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def look(self) -> None:
        frames = list(outward(sys._getframe(1)))
        # Another thread looks: it reads a frame as it is.
        looks = threading.Thread(target=lambda: self.found.extend(handled_signals(frames)))
        looks.start()
        looks.join()

    def save(self, number: int, frame: object) -> None:
        self.look()

    def save_all(self, *given: object) -> None:
        self.look()

    def save_bound(self, where: str, number: int, frame: object) -> None:
        self.look()

    def called(self, number: int, frame: object) -> None:
        self.look()


def test_a_signal_that_is_handled_is_told_and_none_of_a_function_that_is_called_with_a_frame() -> None:
    program = Preempted()
    former = signal.getsignal(signal.SIGUSR1)
    try:
        for handler in (program.save, program.save_all, partial(program.save_bound, "disk")):
            signal.signal(signal.SIGUSR1, handler)
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, former)
    told = [re.sub(r":\d+", "", one) for one in program.found]
    names = ("save", "save_all", "save_bound")
    assert told == [f"the signal SIGUSR1 in {name} (test_ended_threads.py)" for name in names]

    program.called(7, None)
    program.called(7, sys._getframe(1))
    assert len(program.found) == len(told)


def test_of_an_error_of_gloo_the_words_are_told_and_not_the_place_in_its_source() -> None:
    place = "/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553"
    try:
        raise RuntimeError(f"[{place}] Connection closed by peer [127.0.0.1]:7081. This is typically")
    except RuntimeError:
        told = handled_exceptions()[threading.get_ident()]
    assert told.startswith("RuntimeError: Connection closed by peer [127.0.0.1]:7081.")
