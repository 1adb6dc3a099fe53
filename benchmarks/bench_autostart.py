"""Measure what taking part costs a program: the line in site-packages, a rank's start, and a stop not yet reached."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path

import dbg_agent
from dbg_agent.program import entry
from dbg_agent.stop_at import points
from dbg_agent.stop_at.insertion import CALL, compile_with
from dbg_wire.environment import STOP_AT
from dbg_wire.stop_points import StopAt

STARTS = 15
LINE = Path(__file__).parents[1] / "agent/dbg_broker_autostart.pth"
LOOP = """\
def train(steps):
    total = 0
    for step in range(steps):
        total += step * step % 7
    return total
"""
STEPS = 1_000_000


def line_ms() -> float:
    """Return what the interpreter does with the line at each start, in milliseconds, with the variable unset."""
    os.environ.pop("DBG_AUTOSTART", None)
    text = LINE.read_text()
    return min(timeit.repeat(lambda: exec(text, {}), number=1000, repeat=5))  # noqa: S102


def start_ms(home: str, **variables: str) -> float:
    """Return the median time of an interpreter that runs an empty script, in milliseconds."""
    script = Path(home, "empty.py")
    script.write_text("")
    times = []
    for _ in range(STARTS):
        begin = time.perf_counter()
        environ = {**os.environ, "DBG_HOME": home, **variables}
        subprocess.run([sys.executable, str(script)], env=environ, check=True, stderr=subprocess.DEVNULL)
        times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


def loop_ms(stops: list[tuple[int, StopAt]], **names: object) -> float:
    """Return the best time of a loop compiled with these stops, in milliseconds."""
    exec(compile_with(LOOP.encode(), "train.py", stops)[0], names)  # noqa: S102
    return min(timeit.repeat("train(steps)", globals={**names, "steps": STEPS}, number=1, repeat=7)) * 1000


def main() -> None:
    """Print what each costs."""
    print(f"the line in site-packages, variable unset: {line_ms():.4f} ms")
    with tempfile.TemporaryDirectory() as home:
        bare = start_ms(home)
        helper = start_ms(home, DBG_AUTOSTART="rank:1:none")
        rank = start_ms(home, DBG_AUTOSTART="1")
        stop = start_ms(home, DBG_AUTOSTART="1", DBG_STOP_AT="empty.py:1")
    print(
        f"start and end: {bare:.0f} ms, as a rank's child {helper - bare:+.0f} ms, as a rank {rank - bare:+.0f} ms, ",
        end="",
    )
    print(f"with a stop {stop - bare:+.0f} ms")
    behind = StopAt(file="train.py", line=5)
    without, below = loop_ms([]), loop_ms([(0, behind)], **{CALL: lambda _number: None})
    print(f"{STEPS} turns: {without:.1f} ms, with a stop behind the loop {below:.1f} ms")
    condition_us()


def condition_us() -> None:
    """Print what a stop in the loop costs each turn while its condition is false, in microseconds."""
    conditions = ("step == -1", "rank == -1", "any(step == n for n in ())")
    os.environ[STOP_AT] = "\n".join(f"train.py:4, {condition}" for condition in conditions)
    points.begin(os.environ, is_rank=False, load=lambda: entry, failed=dbg_agent.go_on_without)
    for number, condition in enumerate(conditions):
        stop = StopAt(file="train.py", line=4, condition=condition)
        each = (loop_ms([(number, stop)]) - loop_ms([])) * 1000 / STEPS
        print(f"a false condition, {condition}: {each:.2f} µs a turn")


if __name__ == "__main__":
    main()
