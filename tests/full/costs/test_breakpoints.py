"""What a breakpoint costs a program that does not come to it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.unit.agent.breakpoints.asking import ask, loaded, spec
from tests.unit.agent.pdb_driver import Driver, drive

PROGRAM = """\
import sys
import time


def hot(count):
    total = 0
    for number in range(count):
        total += small(number)
        if number < 0:
            total = 0  # never reached
    return total


def small(number):
    return number & 3


def stopped(rank, count):
    rank.stopping.stop(sys._getframe(), "breakpoint")
    begun = time.thread_time()
    hot(count)
    return time.thread_time() - begun
"""

COUNT = 30_000

MOST = 2.0
"""Factor that a busy machine still keeps; 1.0 to 1.1 are measured on one at rest. A traced loop takes 10 and more."""


def fastest(run: Callable[[], object]) -> float:
    """Return the seconds of the fastest of several runs: other processes only make a run slower."""
    seconds = []
    for _ in range(20):
        begun = time.thread_time()
        run()
        seconds.append(time.thread_time() - begun)
    return min(seconds)


def test_a_breakpoint_that_is_not_reached_costs_no_time(driver: Driver, tmp_path: Path) -> None:
    program = loaded(tmp_path, PROGRAM)
    without = fastest(lambda: program.hot(COUNT))
    ask(driver, spec(program, "# never reached"), spec(program, "import sys"))
    with_one = fastest(lambda: program.hot(COUNT))
    ask(driver, clear=[spec(program, "# never reached"), spec(program, "import sys")])
    after = fastest(lambda: program.hot(COUNT))
    print(f"{without * 1000:.1f} ms without, x{with_one / without:.2f} with one, x{after / without:.2f} after it")  # noqa: T201 - a measurement that -rP shows
    assert with_one / without < MOST
    assert after / without < MOST


if sys.version_info >= (3, 12):

    def test_a_rank_that_continues_from_a_stop_is_not_traced_for_breakpoints(driver: Driver, tmp_path: Path) -> None:
        program = loaded(tmp_path, PROGRAM)
        without = fastest(lambda: program.hot(COUNT))

        def script() -> None:
            driver.prompt()
            ask(driver, spec(program, "# never reached"))
            driver.reply("c")

        finish = drive(driver, script)
        took = program.stopped(driver.rank, 10 * COUNT)
        finish()
        assert sys.gettrace() is None
        print(f"x{took / (10 * without):.2f} after `continue`")  # noqa: T201 - a measurement that -rP shows
        assert took / (10 * without) < MOST
        ask(driver, clear=[spec(program, "# never reached")])
