"""What a guard sees of another process; a stuck and a suspended rank are in test_guard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dbg_agent.guard.seen import evidence_rows, process_of, suspended_by
from dbg_agent.guard.watched import Memory
from dbg_wire.messages import Look
from dbg_wire.records.evidence import evidence_in
from dbg_wire.records.ranks import Place

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
        seen = process_of(sleeper, Memory(sleeper))
        assert seen.state == "t"
        assert seen.note.endswith(f" (pid {tracer.pid}) has stopped it")
        tracer.communicate("")


def test_a_process_that_sleeps_says_so(sleeper: int) -> None:
    seen = process_of(sleeper, Memory(sleeper))
    assert (seen.state in ("S", "R"), seen.note) == (True, "")
    assert seen.memory is not None
    assert seen.cpu is not None
    os.kill(sleeper, signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper, os.WSTOPPED | os.WNOWAIT)
    assert suspended_by(sleeper) == "SIGSTOP"


def test_a_process_that_has_gone_tells_nothing() -> None:
    seen = process_of(2**22, Memory(2**22))
    assert (seen.state, seen.cpu, seen.memory, seen.note) == ("", None, None, "")


def test_only_a_look_at_evidence_gets_rows() -> None:
    frames = tuple(Place(file="x.py", line=line, function="f") for line in range(1, 60))
    assert evidence_rows(Look.COLLECTIVES, os.getpid(), Memory(os.getpid()), "stuck", frames) == ()
    evidence = evidence_in(evidence_rows(Look.CODE, os.getpid(), Memory(os.getpid()), "stuck", frames))
    assert evidence is not None
    assert [(len(wait.frames), wait.frames[-1].line, wait.text) for wait in evidence.waits] == [(40, 59, "stuck")]
