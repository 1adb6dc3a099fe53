from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dbg_agent.rank.position import FREE_SECONDS, Unmoved
from tests.support.time_unit import seconds


def beside(work: Callable[[], None], wait: Callable[[threading.Thread], None] = threading.Thread.join) -> None:
    """Do some work in another thread while this one, the main one, is in ``wait``; raise what the work raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait(thread)
    for error in raised:
        raise error


def until_known(unmoved: Unmoved) -> float:
    """Look again and again until the main thread has come to its wait; return the age then."""
    deadline = time.monotonic() + seconds(10)
    while time.monotonic() < deadline:
        age = unmoved.look()
        if age is not None:
            return age
    raise AssertionError("the thread never stood still")


def test_a_thread_that_waits_has_been_there_since_the_first_look_that_found_it_there() -> None:
    def work() -> None:
        unmoved = Unmoved()
        begun = time.monotonic()
        first = until_known(unmoved)
        second = unmoved.look()
        assert second is not None
        assert first <= second <= time.monotonic() - begun

    beside(work)


def test_a_thread_that_came_back_to_the_same_instruction_has_moved() -> None:
    rounds = 0

    def loop(thread: threading.Thread) -> None:
        nonlocal rounds
        while thread.is_alive():
            rounds += sum(range(100)) > 0

    def work() -> None:
        unmoved = Unmoved()
        for _ in range(20):
            assert unmoved.look() is None
            begun = rounds
            while rounds < begun + 500:
                time.sleep(0)

    beside(work, loop)


def test_processor_time_tells_a_wait_from_the_same_wait_a_round_later() -> None:
    def work() -> None:
        used = 0.0
        unmoved = Unmoved(lambda: used)
        until_known(unmoved)
        used += 100 * FREE_SECONDS
        assert unmoved.look() is None
        assert unmoved.look() is not None

    beside(work)
