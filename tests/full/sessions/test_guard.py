"""Guards: why a rank has ended, where one is that can no longer send, and commands beside ranks."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dbg_wire.records.ranks import RankState
from tests.conftest import OpenTerminal
from tests.e2e.test_guard import STUCK_OR_CLOSED, STUCK_SECONDS, Job, wait_until_details
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.ranks import ask, attach, attach_command, start_ranks, wait_until_states
from tests.support.raw_terminal import listed, raw_terminal
from tests.support.time_unit import seconds

STUCK_AT_ONCE = f"""\
import ctypes, os
from dbg_agent.guard import rank_side as guard
from dbg_agent import install
sleep = ctypes.PyDLL(None).sleep
guard.BEAT_SECONDS, guard.STUCK_SECONDS = 0.2, 0.6
install()
sleep({STUCK_SECONDS})
os.write(1, b"WENT ON")
"""


async def test_a_rank_that_is_stuck_before_it_registers_is_listed(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    async with raw_terminal(broker) as peer:
        (rank,) = start_ranks(processes, home, STUCK_AT_ONCE, 1)
        found = await listed(peer, lambda listed: listed.state is RankState.UNRESPONSIVE)
        assert (found.pid, found.rank, found.script) == (rank.pid, 0, str(home / "rank_script.py"))
        job = Job(broker, rank, peer, home)
        # The kernel gives a rank on a busy machine its turn to write its stack after a while.
        while not (answer := await job.where(found)).frames:
            pass
        assert answer.frames[-1].line == STUCK_AT_ONCE.splitlines().index(f"sleep({STUCK_SECONDS})") + 1
        await listed(peer, lambda listed: listed.state is RankState.EXITED)
        assert rank.wait() == 0
        assert rank.text() == "WENT ON"


FILLS = """\
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


def test_a_rank_killed_for_its_memory_is_reported(group: Path, processes: Processes, home: Path) -> None:
    # The group is made first, so that it goes when all processes in it have ended.
    running_broker(processes, home)
    go = home / "go"
    os.mkfifo(go)
    (rank,) = start_ranks(processes, home, FILLS, 1, env={"GROUP": str(group), "GO": str(go)})
    rank.wait_for_output("RUNS")
    go.write_text("go\n")
    assert rank.wait() == -signal.SIGKILL
    wait_until_details(home, r"SIGKILL .*\b0\.1 GiB\b.* \d+\.\d GiB .*")


def pipe(path: Path) -> Path:
    """Make a named pipe, whose reader waits until a command has written to it."""
    os.mkfifo(path)
    return path


def run(home: Path, target: str, *command: str) -> dict[str, Any]:
    """Return the JSON document of a command beside ranks."""
    result = attach(home, "exec", target, "--json", "--", *command)
    assert result.stdout, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def assert_ends(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([handle], [], [], seconds(10))[0], f"{pid} still runs"
    os.close(handle)


def test_commands_run_next_to_ranks_and_end_with_their_terminal(
    ranks: list[Child], home: Path, open_terminal: OpenTerminal
) -> None:
    show = 'echo "$DBG_PID $DBG_RANK $OF_THE_RANK"; pwd; echo to stderr >&2; echo "${DBG_TOKEN-none}"'
    document = run(home, "all", "sh", "-c", show)
    texts = {group["ranks"]: (group["kind"], group["text"]) for group in document["groups"]}
    for number in (0, 1):
        folder = home / "homes" / f"rank{number}"
        expected = f"{ranks[number].pid} {number} set by the program\n{folder}\nto stderr\nnone"
        assert texts[str(number)] == ("value", expected)
    assert (texts["2"][0], texts["3"][0]) == ("error", "error")
    assert "install(exec=False)" in texts["2"][1]
    assert "guard=False" in texts["3"][1]

    # Equal outputs are one group, a failure is an answer, and its status is shown.
    failed = attach(home, "exec", "0-1", "--", "sh", "-c", "echo out; exit 3")
    assert (failed.returncode, failed.stderr) == (1, "")
    assert failed.stdout.endswith("    out\n    (exit status 3)\n")
    host = attach(home, "exec", "all", "--per-host", "--", "echo", "once")
    assert (host.returncode, host.stdout.splitlines()[-1]) == (0, "@1  1 rank  0  once")
    assert attach(home, "exec", "0", "--", "no-such-thing").returncode == 1
    much = run(home, "0", "seq", "100000")["groups"][0]["text"]
    assert len(much) < 6 * 100_000
    assert (much.splitlines()[0], much.splitlines()[-1]) == ("1", "100000")

    # A command that takes too long is ended, with what it has started.
    slow = "sleep 1000 & echo begun $$ $!; wait"
    late = attach(home, "exec", "0", "--timeout", "1", "--", "sh", "-c", slow)
    assert late.returncode == 1
    *_, pids_of_both, ended = late.stdout.splitlines()
    assert ended.startswith("    (ended after ")
    for pid in map(int, pids_of_both.split()[1:]):
        assert_ends(pid)

    # So is one of a terminal that gives up, or is killed.
    for number, end in ((1, signal.SIGINT), (0, signal.SIGKILL)):
        pids = pipe(home / f"pids{number}")
        slow = f"trap '' HUP; sleep 1000 & echo $$ $! > {pids}; wait"
        terminal = open_terminal(attach_command("exec", str(number), "--timeout", "100", "--", "sh", "-c", slow))
        both = pids.read_text()
        terminal.signal(end)
        for pid in map(int, both.split()):
            assert_ends(pid)

    # A command that has ended leaves nothing running; the rank's end ends a command.
    left = run(home, "0", "sh", "-c", "sleep 1000 & echo $!")["groups"][0]["text"]
    assert_ends(int(left))
    begun = pipe(home / "last")
    open_terminal(attach_command("exec", "0", "--timeout", "100", "--", "sh", "-c", f"echo $$ > {begun}; sleep 1000"))
    last = int(begun.read_text())
    ranks[0].kill()
    assert_ends(last)


@pytest.fixture
def ranks(processes: Processes, home: Path) -> list[Child]:
    running_broker(processes, home)
    started = start_ranks(processes, home, STUCK_OR_CLOSED, 4)
    wait_until_states(home, {0: "running", 1: "unresponsive", 2: "running", 3: "running"})
    return started


def test_native_frames_of_running_and_stuck_ranks_are_read(ranks: list[Child], home: Path) -> None:
    if not Path(sys.executable).with_name("py-spy").exists():
        pytest.skip("py-spy is not installed")
    document = ask(home, "where", "all", "--native")
    stacks = {group["ranks"]: group["frames"] for group in document["groups"] if group["kind"] == "stack"}
    line = STUCK_OR_CLOSED.splitlines().index("    ctypes.PyDLL(None).sleep(1000)") + 1
    for number, at in ((0, line + 1), (1, line)):
        frames = stacks[str(number)]
        place = next(index for index, frame in enumerate(frames) if frame["file"] == str(home / "rank_script.py"))
        assert frames[place]["line"] == at
        # Behind the program's frames are those of C code, without a line.
        assert frames[-1]["line"] == 0
        assert "libc" in frames[-1]["file"]
        assert place < len(frames) - 2
    others = {group["ranks"]: group["text"] for group in document["groups"] if group["kind"] == "error"}
    assert "forbidden" in str(others)
    assert "no guard" in str(others)
