"""A guard gets a stack from py-spy or reports why it cannot, runs commands, and watches processes."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_agent.guard import guard_commands
from dbg_agent.guard.guard_commands import CantStart, Command, NoStack, Output, stack_of
from dbg_agent.guard.reporting import suspended_by
from dbg_agent.host.process import process_seen
from dbg_agent.host.watched import WatchedProcess
from dbg_wire.records.inspection import MAX_FIRST, MAX_LAST, CommandEnd
from tests.conftest import Approved
from tests.unit.agent.guard.test_guard import write


@pytest.mark.parametrize(
    ("script", "scope"),
    [
        ("echo 'Permission Denied: Try again'; exit 1", ""),
        ("echo 'Operation not permitted (os error 1)'; exit 1", "1"),
        ("echo 'Permission Denied'; exit 1", "3"),
        ("echo 'Error: no python'; echo more; exit 1", ""),
        ("sleep 1000", ""),
    ],
)
async def test_each_reason_for_a_missing_stack_is_a_sentence(
    approved: Approved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, scope: str
) -> None:
    (tmp_path / "scope").write_text(f"{scope}\n")
    monkeypatch.setattr(guard_commands, "YAMA_SCOPE", str(tmp_path / "scope"))
    write(tmp_path, script)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with pytest.raises(NoStack) as caught:
        await stack_of(7, environ, 0.5 if "sleep" in script else 20.0, ())
    approved(str(caught.value))


class Heard(Output):
    """An output that sets an event when it has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.something = asyncio.Event()

    def feed(self, data: bytes) -> None:
        super().feed(data)
        self.something.set()


async def run(*words: str, seconds: float = 20.0) -> tuple[CommandEnd, str]:
    command = Command(words, {"PATH": os.environ["PATH"]}, "/")
    end = await command.finish(seconds)
    return end, command.output.text()


async def test_output_and_status_are_returned() -> None:
    assert await run("sh", "-c", "echo out; echo err >&2; pwd; exit 7") == (CommandEnd(status=7), "out\nerr\n/\n")
    end, _ = await run("sh", "-c", "kill -TERM $$")
    assert end == CommandEnd(status=-signal.SIGTERM)


@pytest.mark.parametrize("program", ["no-such-program", "/"])
async def test_a_command_that_cannot_start_reports_the_reason(approved: Approved, program: str) -> None:
    with pytest.raises(CantStart) as caught:
        await run(program)
    approved(str(caught.value))


async def test_a_time_limit_ends_a_command_and_its_children() -> None:
    end, text = await run("sh", "-c", "trap '' TERM; sleep 1000 & echo $$ $!; wait; sleep 1000", seconds=0.5)
    assert end.ended == "after 0.5 s"
    for pid in map(int, text.split()):
        assert_ends(pid)


async def test_a_cancelled_command_ends() -> None:
    command = Command(["sh", "-c", "echo $$; sleep 1000"], {"PATH": os.environ["PATH"]}, "/")
    command.output = printed = Heard()
    task = asyncio.ensure_future(command.finish(1000))
    await printed.something.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert_ends(int(command.output.text()))


async def test_a_background_process_does_not_delay_the_answer() -> None:
    # The test's time-out would end a longer wait.
    end, text = await run("sh", "-c", "sleep 1000 & echo $!", seconds=1000)
    assert end == CommandEnd(status=0)
    assert_ends(int(text))


def assert_ends(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([handle], [], [], 10)[0], f"{pid} still runs"
    os.close(handle)


def test_long_output_keeps_its_start_and_end_and_counts_the_rest() -> None:
    output = Output()
    for number in range(100_000):
        output.feed(f"{number}\n".encode())
    text = output.text()
    assert text.startswith("0\n1\n")
    assert text.endswith("99998\n99999\n")
    assert output.left_out == sum(len(f"{n}\n") for n in range(100_000)) - MAX_FIRST - MAX_LAST
    assert f"{output.left_out:,}" in text
    whole = Output()
    whole.feed(b"x" * MAX_FIRST + b"y" * MAX_LAST)
    assert (whole.left_out, len(whole.text())) == (0, MAX_FIRST + MAX_LAST)


TRACER = """\
import ctypes, os, sys
pid, libc = int(sys.argv[1]), ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, pid, None, None):
    sys.exit(3)
os.waitpid(pid, 0)
print("traces", flush=True)
sys.stdin.read()
"""
"""Attach to a process, which stops it."""


@pytest.fixture
def sleeper() -> Iterator[int]:
    # Any process may trace this one, where Yama asks for that.
    allow = "import ctypes; ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1))"
    script = f"{allow}\nprint(1, flush=True)\nimport time; time.sleep(1000)"
    with subprocess.Popen([sys.executable, "-S", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_a_tracer_is_named(sleeper: int) -> None:
    command = [sys.executable, "-S", "-c", TRACER, str(sleeper)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout is not None
        if not tracer.stdout.readline():
            pytest.skip("nothing may be traced here")
        assert suspended_by(sleeper).endswith(f" (pid {tracer.pid})")
        seen = process_seen(sleeper)
        assert (seen.state, seen.tracer and seen.tracer.pid) == ("t", tracer.pid)
        tracer.communicate("")


def test_a_sleeping_and_a_suspended_process_are_recognized(sleeper: int) -> None:
    seen = process_seen(sleeper)
    assert (seen.state in ("S", "R"), seen.tracer) == (True, None)
    assert seen.main_cpu is not None
    os.kill(sleeper, signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper, os.WSTOPPED | os.WNOWAIT)
    assert suspended_by(sleeper) == "SIGSTOP"


@pytest.mark.parametrize(
    ("number", "is_calm", "is_unheard"),
    [(0, True, False), (0, False, True), (signal.SIGKILL, True, True), (signal.SIGKILL, False, True)],
)
def test_a_rank_ended_by_signal_or_unannounced_sent_no_goodbye(number: int, is_calm: bool, is_unheard: bool) -> None:
    end = f"read line; kill -{int(number)} $$; exit 3" if number else "read line; exit 3"
    with subprocess.Popen(["sh", "-c", end], stdin=subprocess.PIPE) as child:
        watched = WatchedProcess(child.pid)
        assert child.stdin is not None
        child.stdin.close()
        assert not watched.is_alive(60)
        # Nobody has asked for its status yet, as of a rank whose launcher is slow.
        assert watched.status() == (number or 3 << 8)
        assert watched.has_ended_unheard(is_calm=is_calm) is is_unheard
        if watched.descriptor >= 0:
            os.close(watched.descriptor)
