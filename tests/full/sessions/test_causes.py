"""A rank that a signal has ended tells who sent that signal: the kernel, a time limit, the launcher."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.test_guard import RUNS as SCRIPT
from tests.e2e.test_guard import wait_until_told
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_list, start_ranks

FULL = """\
import os
from dbg_agent.guard import rank_side as guard
guard.BEAT_SECONDS = 0.1
import dbg_agent
with open(os.environ["GROUP"] + "/cgroup.procs", "w") as group:
    group.write("0")
dbg_agent.install()
print("RUNS", flush=True)
open(os.environ["GO"]).readline()
full = []
while True:
    full.append(b"x" * (1 << 20))
"""


GROUPS = Path("/sys/fs/cgroup/memory")


def test_a_rank_whose_time_is_up_says_which_limit_it_was(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, SCRIPT, 1, wrap=lambda command: ["timeout", "4", *command])
    assert rank.wait() == 124
    wait_until_told(home, "SIGTERM .*`timeout 4`.*")
    assert attach_list(home, "--all")[0]["detail"] in attach(home, "eval", "0", "x").stderr


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of 128 MiB; the test is skipped where none may be made."""
    folder = GROUPS / f"dbg-broker-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(128 << 20))
        with suppress(OSError):
            (folder / "memory.memsw.limit_in_bytes").write_text(str(128 << 20))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield folder
    with suppress(OSError):
        folder.rmdir()


def test_a_rank_that_the_kernel_ends_for_want_of_memory_says_so(group: Path, processes: Processes, home: Path) -> None:
    # The group is made first, so that it goes when all processes in it have ended.
    running_broker(processes, home)
    go = home / "go"
    os.mkfifo(go)
    (rank,) = start_ranks(processes, home, FULL, 1, env={"GROUP": str(group), "GO": str(go)})
    rank.wait_for_output("RUNS")
    go.write_text("go\n")
    assert rank.wait() == -signal.SIGKILL
    wait_until_told(home, r"SIGKILL .*\b128\.0 MiB\b.* \d+\.\d MiB .*")
