""""""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dbg_agent.process import threads
from dbg_agent.stop import stacks as module
from dbg_agent.stop.stacks import thread_stacks
from dbg_wire.records.ranks import Place, ThreadStack


@contextmanager
def waiting(count: int = 1, name: str | None = None, *, own: bool = False) -> Iterator[threading.Event]:
    """Have threads wait in ``feed``, or in a function of our own, until the end."""
    ended, there = threading.Event(), threading.Semaphore(0)

    def feed() -> None:
        there.release()
        ended.wait()

    started = []
    for _ in range(count):
        if own:
            bounded_thread = threading.Thread(target=threads.within, args=(60.0, feed, None), daemon=True)
            started.append(bounded_thread)
        else:
            started.append(threading.Thread(target=feed, name=name, daemon=True))
        started[-1].start()
    for _ in range(count):
        assert there.acquire(timeout=10)
    try:
        yield ended
    finally:
        ended.set()
        for thread in started:
            thread.join()


def named(stacks: tuple[ThreadStack, ...], name: str) -> list[ThreadStack]:
    return [stack for stack in stacks if stack.name == name]


def test_all_threads_are_told_by_name_with_the_main_one_first() -> None:
    with waiting(name="feeder"):
        stacks = thread_stacks(None, ())
    assert stacks[0].name == "MainThread"
    assert stacks[0].frames[-1].function == "test_all_threads_are_told_by_name_with_the_main_one_first"
    (feeder,) = named(stacks, "feeder")
    assert "feed" in [place.function for place in feeder.frames]
    assert not any(stack.halted for stack in stacks)


def test_the_thread_that_stands_in_a_stop_has_the_stack_of_the_stop() -> None:
    place = Place(file="/t.py", line=7, function="work")
    stacks = thread_stacks(threading.main_thread().ident, (place,))
    assert (stacks[0].frames, stacks[0].halted) == ((place,), True)


def test_threads_of_ours_are_left_out_whatever_they_are_called() -> None:
    before = {stack.name for stack in thread_stacks(None, ())}
    with waiting(own=True), waiting(name="dbg-agent-something"):
        # Threads of earlier tests may end meanwhile.
        assert {stack.name for stack in thread_stacks(None, ())} <= before


def test_there_are_no_more_threads_and_frames_than_one_answer_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_THREADS", 3)
    monkeypatch.setattr(module, "MAX_THREAD_FRAMES", 4)
    with waiting(5, name="feeder"):
        stacks = thread_stacks(None, ())
    assert len(stacks) == 3
    assert stacks[0].name == "MainThread"
    assert all(len(stack.frames) <= 4 for stack in stacks)
