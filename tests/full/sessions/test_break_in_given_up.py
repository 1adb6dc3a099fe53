"""Running ranks are broken into at any place, and go on afterwards as if nothing had happened."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, attach_command, start_ranks, wait_until_states
from tests.support.time_unit import seconds

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


def test_a_rank_does_not_stop_later_for_one_who_gave_up(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, BUSY, 1)
    wait_until_states(home, {0: "running"})
    terminal = open_terminal(attach_command("interrupt", "0"), rows=30, cols=120)
    terminal.wait_for("Ctrl-C")
    terminal.send(b"\x03")
    terminal.wait_for(re.compile("Given up: .*:0 goes on"))
    assert terminal.exit_status() == 130
    let_run(home)
    assert rank.wait(seconds(30)) == 0
    assert "ended well" in rank.text()
    assert "stopped at" not in rank.text("stderr")


def test_of_two_who_ask_one_may_give_up(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
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
