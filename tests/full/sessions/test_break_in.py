"""Running ranks are broken into at any place, and go on afterwards as if nothing had happened."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from dbg_wire.records.inspection import BreakpointChanges, BreakpointSpec, LineOfFile
from tests.conftest import OpenTerminal
from tests.e2e.test_breakpoints import STILL_IMPORTS
from tests.smoke.test_break_in import change_breakpoints, end, start
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import ask, attach, attach_command, start_ranks, wait_until_states
from tests.support.time_unit import seconds


def test_the_terminal_that_interrupts_drives_although_another_follows(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    (rank,) = start(processes, home, "loop")
    following = open_terminal(attach_command("--follow", "0"), 24, 120)
    following.wait_for("waiting")
    breaking_in = open_terminal(attach_command("interrupt", "0"), 24, 120)
    following.wait_for("watching")
    breaking_in.wait_for(DRAWN)
    following.wait_for(DRAWN)
    breaking_in.wait_for(lambda terminal: "stopped" in terminal.row(-1) and "watching" not in terminal.row(-1))
    end(home, rank)


IN_HOOK = """\
import os, sys, time
import dbg_agent
dbg_agent.install()
def hook(*_arguments):
    print("in its hook", flush=True)
    while not os.path.exists("end"):
        time.sleep(0.01)
    print("ended well", flush=True)
sys.excepthook = hook
raise RuntimeError("the program's own")
"""


def test_a_rank_in_its_excepthook_cannot_be_stopped(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, IN_HOOK, 1)
    wait_until_states(home, {0: "running"})
    folder = home / "homes" / "rank0"
    rank.wait_for_output("in its hook")
    (group,) = ask(home, "interrupt", "0", "--timeout", "2")["groups"]
    assert group["kind"] != "stopped"
    (folder / "end").touch()
    assert rank.wait(seconds(30)) == 1
    assert "ended well" in rank.text()


def test_a_breakpoint_in_a_traced_frame_has_no_problem(
    processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_broker(processes, home)
    monkeypatch.setenv("DBG_HOME", str(home))
    (rank,) = start_ranks(processes, home, STILL_IMPORTS, 1)
    wait_until_states(home, {0: "running"})
    assert attach(home, "interrupt", "0").returncode == 0
    wait_until_states(home, {0: "stopped"})
    number = next(number for number, text in enumerate(STILL_IMPORTS.splitlines(), 1) if "return loss" in text)
    spec = BreakpointSpec(file=str(home / "rank_script.py"), line=number)
    asyncio.run(change_breakpoints(BreakpointChanges(set=(spec,))))
    assert attach(home, "continue", "all").returncode == 0
    wait_until_states(home, {0: "running"})
    (((state,),)) = asyncio.run(change_breakpoints(BreakpointChanges()))
    assert (state.is_set, state.problem) == (True, "")
    for name in ("imported", "read"):
        (home / "homes/rank0" / name).touch()
    wait_until_states(home, {0: "stopped"})
    asyncio.run(change_breakpoints(BreakpointChanges(clear=(LineOfFile(file=spec.file, line=number),))))
    (home / "homes/rank0/enough").touch()
    attach(home, "continue", "all")
    assert rank.wait() == 0


BUSY = """\
import ctypes, os, threading, time
import dbg_agent
dbg_agent.install()
libc, mutex, locked = ctypes.CDLL(None), ctypes.create_string_buffer(64), threading.Event()
def hold():
    libc.pthread_mutex_lock(mutex)
    locked.set()
    while not os.path.exists("free"):
        time.sleep(0.02)
    libc.pthread_mutex_unlock(mutex)
threading.Thread(target=hold).start()
locked.wait()
def c_code():
    libc.pthread_mutex_lock(mutex)
c_code()
while not os.path.exists("end"):
    time.sleep(0.02)
print("ended well", flush=True)
"""
"""A program in C code that no signal interrupts, until a file exists."""


def let_run(home: Path) -> None:
    """Let the rank leave its C code and end."""
    (home / "homes" / "rank0" / "end").touch()
    (home / "homes" / "rank0" / "free").touch()


def test_a_cancelled_interrupt_does_not_stop_the_rank_later(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, BUSY, 1)
    wait_until_states(home, {0: "running"})
    terminal = open_terminal(attach_command("interrupt", "0"), rows=30, cols=120)
    terminal.wait_for("Ctrl-C")
    terminal.send(b"\x03")
    terminal.wait_for(re.compile("Given up: .*:0 continues"))
    assert terminal.exit_status() == 130
    let_run(home)
    assert rank.wait(seconds(30)) == 0
    assert "ended well" in rank.text()
    assert "stopped at" not in rank.text("stderr")


def test_one_of_two_interrupts_may_be_cancelled(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, BUSY, 1)
    wait_until_states(home, {0: "running"})
    terminal = open_terminal(attach_command("interrupt", "0"), rows=30, cols=120)
    terminal.wait_for("Ctrl-C")
    (group,) = ask(home, "interrupt", "0", "--timeout", "1")["groups"]
    assert group["kind"] == "running"
    terminal.send(b"\x03")
    assert terminal.exit_status() == 130
    let_run(home)
    wait_until_states(home, {0: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait(seconds(30)) == 0
