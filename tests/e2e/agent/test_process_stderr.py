"""What the agent says reaches the job's stderr, and no thread of the program waits for that."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dbg_agent.process.stderr import MAX_WAITING
from tests.support.time_unit import seconds

FULL_PIPE = """\
import fcntl, os, sys
from dbg_agent.process.stderr import say
descriptor = sys.stderr.fileno()
flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK)
try:
    while True: os.write(descriptor, b"x" * 4096)
except BlockingIOError:
    pass
fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
for number in range(COUNT):
    say(f"line {number}")
print("went on", flush=True)
sys.stdin.readline()
import dbg_agent.process.stderr, time
while not dbg_agent.process.stderr.is_written(): time.sleep(0.01)
"""


@pytest.mark.parametrize("count", [1, MAX_WAITING, 5 * MAX_WAITING])
def test_a_full_pipe_keeps_nobody_and_is_told_later(count: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", FULL_PIPE.replace("COUNT", str(count))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "went on\n"
    _, errors = child.communicate("\n", timeout=seconds(20))
    said = [line for line in errors.replace("x", "").splitlines() if line]
    assert said[-1] == f"dbg-agent: line {count - 1}"
    assert len(said) <= min(count, MAX_WAITING + 1)
    assert child.returncode == 0
