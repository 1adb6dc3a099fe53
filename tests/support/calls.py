"""Calls: how many some work takes, a measure that no busy machine changes, and how many the stack has room for."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def in_thread(
    work: Callable[[], None], wait: Callable[[threading.Thread], None] = threading.Thread.join
) -> list[BaseException]:
    """Return what this work raises in a thread of its own, while this one is in ``wait``."""
    raised: list[BaseException] = []
    begins = threading.Event()

    def run() -> None:
        # In the wait of `start` this thread would seem to stand still, and then go on to ``wait``.
        begins.wait()
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    begins.set()
    wait(thread)
    return raised


def calls_left(nested: int = 0) -> int:
    try:
        return calls_left(nested + 1)
    except RecursionError:
        return nested


def with_calls_left(left: int, call: Callable[[], T]) -> T:
    """Return what ``call`` returns; it is called where the stack has room for itself and ``left`` calls more."""

    def deep(nested: int) -> T:
        return deep(nested - 1) if nested else call()

    return deep(calls_left() - left - 1)


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions of Python and of C the work calls in this thread."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
