"""A rank that can no longer send: its guard reports where the rank is, what ended it, and runs commands beside it."""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from dbg_agent.host.watched import PIPE
from dbg_wire.messages import (
    Action,
    Answers,
    Attach,
    DetailLevel,
    Kind,
    Mode,
    ProbeReply,
    Question,
    RankAnswer,
)
from dbg_wire.records.evidence import WaitKind, evidence_in
from dbg_wire.records.ranks import WITHOUT_TRACEBACK, RankInfo, RankState
from tests.support.answers import answers_of
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes
from tests.support.ranks import attach, attach_list, start_ranks, wait_until, wait_until_states
from tests.support.raw_terminal import listed, raw_terminal
from tests.support.serving import run
from tests.support.time_unit import seconds
from tests.unit.broker.peers import Peer

PRELUDE = """\
import ctypes, faulthandler, os, sys, threading
from dbg_agent.guard import rank_side as guard
from dbg_agent import install
guard.BEAT_SECONDS, guard.STUCK_SECONDS = 0.2, 0.6
install()

def wait():
    print("WAITS", flush=True)
    sys.stdin = open(os.environ["GO"])
    sys.stdin.readline()
    print("GOES", flush=True)

"""
"""The head of each program: short intervals of the watchdog; ``wait()`` blocks until the test calls ``go``, once."""

STUCK_SECONDS = 6
"""Seconds that the rank is stuck: it is found and asked meanwhile, and goes on before its next probe is due."""

STUCK_SCRIPT = (
    PRELUDE
    + f"""\
def train():
    return ctypes.PyDLL(None).sleep({STUCK_SECONDS})

wait()
print("LEFT TO SLEEP", train(), flush=True)
threading.Event().wait()
"""
)
STUCK_LINE = next(n for n, line in enumerate(STUCK_SCRIPT.splitlines(), 1) if "PyDLL" in line)
CRASH = PRELUDE + "def crash():\n    ctypes.string_at(0)\n\nwait()\ncrash()\n"
CRASH_LINE = CRASH.splitlines().index("    ctypes.string_at(0)") + 1


class Job:
    """One rank that returns from ``wait()`` after ``go``, and a terminal that sees it."""

    def __init__(self, broker: RunningBroker, rank: Child, peer: Peer, go: Path) -> None:
        self.broker = broker
        self.rank = rank
        self.at_first: RankInfo | None = None
        self._peer = peer
        self._go = go

    def go(self) -> None:
        """Let the rank go on from ``wait()``; block until the rank is there."""
        self._go.write_text("go\n")

    async def listed(self, so_that: Callable[[RankInfo], bool]) -> RankInfo:
        """Wait until ``so_that`` holds for the rank as it is listed, and return that."""
        return await listed(self._peer, so_that)

    async def watch(self, rank: RankInfo) -> None:
        """Watch the rank, so that it sends its stack."""
        await self._peer.send(Attach(key=rank.key, mode=Mode.WATCH, rows=24, columns=80, colors=8))
        await self._peer.expect(ProbeReply)

    async def where(self, rank: RankInfo, look: DetailLevel = DetailLevel.STACK) -> RankAnswer:
        await self._peer.send(Question(request=1, keys=(rank.key,), action=Action.WHERE, seconds=seconds(8), look=look))
        return answers_of(await self._peer.expect(Answers))[0]


@asynccontextmanager
async def running(processes: Processes, home: Path, script: str, **env: str) -> AsyncIterator[Job]:
    """Run a broker, and one rank that waits at ``wait()``."""
    broker = running_broker(processes, home)
    go = home / "go"
    os.mkfifo(go)
    (rank,) = start_ranks(processes, home, script, 1, env={"GO": str(go), **env})
    async with raw_terminal(broker) as peer:
        job = Job(broker, rank, peer, go)
        job.at_first = await job.listed(lambda listed: listed.state is RankState.RUNNING)
        rank.wait_for_output("WAITS")
        yield job


def guards(processes: Processes) -> list[int]:
    """Return the guards that this test's ranks have started and that live."""
    return [pid for pid in processes.strays() if b"guard/process.py" in shown_of(pid)]


def guard_of(processes: Processes) -> int:
    """Return the only guard as soon as it watches its rank; a look at all processes takes long enough as a pause."""
    deadline = time.monotonic() + seconds(10)
    while time.monotonic() < deadline:
        found = guards(processes)
        if len(found) == 1 and "anon_inode" in descriptors_of(found[0]).values():
            return found[0]
    raise AssertionError(f"no guard is ready, of {guards(processes)}")


def descriptors_of(pid: int) -> dict[int, str]:
    """Return the kind of file of each descriptor of a process; empty if the process has ended."""
    kinds = {}
    with suppress(FileNotFoundError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            kinds[int(entry.name)] = str(entry.readlink()).partition(":")[0]
    return kinds


def shown_of(pid: int) -> bytes:
    """Return environment and command line of a process; empty if it has ended."""
    try:
        return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline"))
    except (FileNotFoundError, ProcessLookupError):
        return b""


def wait_for_end(pids: list[int], within: float) -> None:
    """Wait until these processes have ended; they need not be children of the test."""
    for pid in pids:
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            ended = select.select([handle], [], [], within)[0]
            os.close(handle)
            assert ended, f"process {pid} still runs"


async def test_a_stuck_rank_is_unresponsive_shows_its_stack_and_is_left_alone(processes: Processes, home: Path) -> None:
    async with running(processes, home, STUCK_SCRIPT) as job:
        job.go()
        rank = await job.listed(lambda listed: listed.state is RankState.UNRESPONSIVE)
        answer = await job.where(rank, DetailLevel.EVIDENCE)
        assert answer.kind is Kind.VALUE
        evidence = evidence_in(answer.rows)
        assert evidence is not None
        (wait,) = evidence.waits
        assert (wait.kind, wait.is_main, wait.frames[-1].line) == (WaitKind.NATIVE, True, STUCK_LINE)
        assert evidence.process is not None
        assert evidence.process.state == "S"
        assert evidence.process.main_cpu
        place = answer.frames[-1]
        assert (place.file, place.line, place.function) == (str(home / "rank_script.py"), STUCK_LINE, "train")
        await job.listed(lambda listed: listed.state is RankState.RUNNING)
        job.rank.wait_for_output("LEFT TO SLEEP 0\n")


async def test_a_rank_hit_by_a_fatal_signal_leaves_signal_and_stack(processes: Processes, home: Path) -> None:
    async with running(processes, home, CRASH) as job:
        job.go()
        rank = await job.listed(lambda listed: listed.exit is not None)
        assert (rank.state, rank.exit) == (RankState.EXITED, -signal.SIGSEGV)
        assert rank.detail.startswith("SIGSEGV")
        answer = await job.where(rank)
        assert (CRASH_LINE, "crash") in [(place.line, place.function) for place in answer.frames]
        assert job.rank.wait() == -signal.SIGSEGV


async def test_a_rank_that_ends_without_a_goodbye_is_listed_with_its_status_and_its_last_line(
    processes: Processes, home: Path
) -> None:
    leave = PRELUDE + "def leave():\n    wait()\n    os._exit(0)\n\nleave()\n"
    async with running(processes, home, leave) as job:
        guard = guard_of(processes)
        assert job.at_first is not None
        await job.watch(job.at_first)
        job.go()
        rank = await job.listed(lambda listed: listed.exit is not None)
        assert (rank.state, rank.exit, rank.detail) == (RankState.EXITED, 0, WITHOUT_TRACEBACK)
        assert "wait" in [place.function for place in (await job.where(rank)).frames]
        wait_for_end([guard], seconds(5))
    output = attach(home, "why").stdout
    assert WITHOUT_TRACEBACK in output


async def test_a_guard_ignores_signals_and_ends_with_its_rank(processes: Processes, home: Path) -> None:
    async with running(processes, home, PRELUDE + "wait()\n") as job:
        guard = guard_of(processes)
        assert os.getsid(guard) not in (job.rank.pid, os.getsid(job.rank.pid))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(guard, number)
        assert guards(processes) == [guard]
        job.go()
        assert job.rank.wait() == 0
        wait_for_end([guard], seconds(5))


async def test_a_guard_shares_only_the_pipe_with_its_rank(processes: Processes, home: Path) -> None:
    before = """\
os.dup2(1, 200, inheritable=True)
os.environ["DBG_TOKEN"] = open(os.environ["DBG_HOME"] + "/tokens/rank").read().strip()
install()
"""
    async with running(processes, home, PRELUDE.replace("install()\n", before) + "wait()\n") as job:
        guard = guard_of(processes)
        kinds = descriptors_of(guard)
        assert kinds.pop(PIPE) == "pipe"
        assert set(kinds.values()) <= {"/dev/null", "anon_inode"}
        assert (home / "tokens" / "rank").read_bytes().strip() not in shown_of(guard)
        job.go()


RUNS = "import threading\nimport dbg_agent\ndbg_agent.install()\nprint('RUNS', flush=True)\nthreading.Event().wait()\n"


def wait_until_details(home: Path, *details: str) -> None:
    """Wait until the list shows the ends of the ranks in texts that match these patterns, rank by rank."""

    def matches(ranks: list[dict[str, Any]]) -> bool:
        shown = [rank["detail"] for rank in sorted(ranks, key=lambda rank: int(rank["rank"]))]
        return len(shown) == len(details) and all(map(re.fullmatch, details, shown))

    try:
        wait_until(home, matches, f"{details}", listing=("--all",))
    except AssertionError:
        raise AssertionError(f"{[rank['detail'] for rank in attach_list(home, '--all')]} is not {details}") from None


def test_a_rank_that_is_ended_after_another_names_it(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    first, second = start_ranks(processes, home, RUNS, 2)
    for rank in (first, second):
        rank.wait_for_output("RUNS")
    wait_until_states(home, {0: "running", 1: "running"})
    first.kill()
    second.signal(signal.SIGTERM)
    wait_until_details(home, "SIGKILL", "SIGTERM .*rank 0 .*SIGKILL")


STUCK_OR_CLOSED = """\
import ctypes, os, threading
from dbg_agent.guard import rank_side as guard
guard.BEAT_SECONDS, guard.STUCK_SECONDS = 0.2, 0.6
import dbg_agent
os.environ["OF_THE_RANK"] = "set by the program"
dbg_agent.install(exec=os.environ["RANK"] != "2", guard=os.environ["RANK"] != "3")
if os.environ["RANK"] == "1":
    ctypes.PyDLL(None).sleep(1000)
threading.Event().wait()
"""
"""Rank 0 waits, rank 1 is stuck in C code, rank 2 forbids commands, and rank 3 has no guard."""


def test_a_watcher_runs_no_command_and_the_audit_log_names_commands(processes: Processes, home: Path) -> None:
    broker: RunningBroker = running_broker(processes, home)
    start_ranks(processes, home, STUCK_OR_CLOSED, 1, env={"DBG_EXEC": "0"})
    wait_until_states(home, {0: "running"})
    token = {"DBG_TOKEN": broker.tokens["watcher"]}
    refused = attach(home, "exec", "0", "--", "true", env=token)
    assert refused.returncode == 5
    assert "only watch" in refused.stderr
    forbidden = attach(home, "exec", "0", "--", "echo", "one\x1b[2Jword")
    assert "forbidden on this rank (DBG_EXEC=0" in forbidden.stdout
    log = run(home, "log").stdout
    assert "one\\x1b[2Jword" in log
    assert "exec true" not in log
