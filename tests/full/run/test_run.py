"""``dbg-broker run`` many times, in two windows, killed, and beside programs with habits of their own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest

from dbg_client.run.progress import COMES_BACK
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import attach, attach_list
from tests.support.runs import (
    IDLE,
    LINE,
    PROGRAM,
    PYTHON,
    STATUS,
    STOP,
    Directory,
    command_line,
    go_through,
    line_of,
    text_of,
    wait_for_broker_to_leave,
    wait_for_prompt,
)
from tests.support.sessions import DETACH
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

CYCLES = 5
"""Runs in one directory, one after the other, so that anything left behind by each of them adds up."""


def test_cycles_leave_nothing_behind(directory: Directory) -> None:
    source, seen, terminals = PROGRAM, [], []
    options: tuple[str, ...] = (*STOP, *PYTHON)
    for cycle in range(CYCLES):
        terminal = directory.run_to_prompt(*options, line=LINE + cycle)
        terminals.append(terminal)
        terminal.send(DETACH)
        terminal.wait_for(COMES_BACK)
        terminal.send(b"\x03")
        assert terminal.exit_status() == 128 + signal.SIGINT
        seen.append(sorted(path.suffix for path in directory.home.rglob("*") if path.is_file()))
        source = f"# {cycle}\n{source}"
        directory.write(source)
        options = ("--again",)
    assert seen[1:] == [seen[1]] * (CYCLES - 1)
    wait_for_broker_to_leave(directory, IDLE + seconds(10))
    assert directory.left_behind(*terminals) == []
    assert sorted(path.name for path in directory.path.iterdir()) in (["train.py"], ["__pycache__", "train.py"])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio takes Ctrl-C for itself since Python 3.11")
def test_a_first_ctrl_c_that_asyncio_keeps_to_itself_is_told(directory: Directory) -> None:
    directory.write("import asyncio\n\nasync def main():\n    breakpoint()\n\nasyncio.run(main())\n")
    terminal = directory.run(*PYTHON)
    terminal.wait_for(DRAWN)
    terminal.send(DETACH)
    terminal.wait_for(COMES_BACK)
    terminal.send(b"\x03")
    terminal.wait_for(lambda seen: text_of(seen).count(COMES_BACK) == 2)
    terminal.send(b"\x03")
    assert terminal.exit_status() == 128 + signal.SIGINT


def test_what_is_typed_while_the_job_ends_is_for_the_shell(directory: Directory) -> None:
    waits = "while not pathlib.Path('go').exists():\n    time.sleep(0.05)\n"
    directory.write(f"import pathlib, time\nprint('waits', flush=True)\n{waits}")
    terminal = directory.open_terminal(["bash", "--norc", "-i"], rows=30, cols=140, env=directory.variables)
    terminal.send(f"{shlex.join(directory.command(*PYTHON))}\r")
    terminal.wait_for(re.compile("^waits", re.MULTILINE))
    terminal.send("echo typed  ahead\recho and  more\r")
    (directory.path / "go").touch()
    terminal.wait_for(re.compile(r"^and more$", re.MULTILINE))
    assert "\ntyped ahead\n" in text_of(terminal)
    terminal.send("exit\r")
    terminal.exit_status()


def test_killing_it_gives_the_screen_back_and_the_job_goes_on(directory: Directory) -> None:
    terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
    os.kill(child_of(terminal, "dbg_client"), signal.SIGKILL)
    terminal.wait_for(lambda seen: 1049 not in seen.virtual.private_modes)
    assert DRAWN not in text_of(terminal)
    assert [rank["state"] for rank in attach_list(directory.home)] == ["stopped"]
    directory.attach("kill", "all", "-y")
    assert terminal.exit_status() == 128 + signal.SIGKILL


def test_killing_the_run_gives_the_screen_back_too(directory: Directory) -> None:
    command = shlex.join(directory.command(*STOP, *PYTHON))
    terminal = directory.open_terminal(["bash", "--norc", "-i"], rows=30, cols=140, env=directory.variables)
    terminal.send(f"{command}\r")
    wait_for_prompt(terminal, LINE)
    (rank,) = attach_list(directory.home)
    run = parent_of(parent_of(rank["pid"]))
    os.kill(run, signal.SIGKILL)
    terminal.wait_for("Detached from ")
    terminal.wait_for(lambda seen: 1049 not in seen.virtual.private_modes)
    terminal.send("echo typed at the shell\r")
    terminal.wait_for(re.compile(r"^typed at the shell$", re.MULTILINE))
    assert [rank["state"] for rank in attach_list(directory.home)] == ["stopped"]
    terminal.send("exit\r")
    terminal.exit_status()
    directory.attach("kill", "all", "-y")


def test_a_crash_is_kept(directory: Directory) -> None:
    directory.write("def fails():\n    local = 1\n    return local / 0\n\nfails()\n")
    directory.environ = {"DBG_LEASE": "600"}  # without it, no crash is kept in a test run
    terminal = directory.run("--post-mortem", *PYTHON)
    terminal.wait_for(DRAWN)
    terminal.wait_for(re.compile("ZeroDivisionError"))
    directory.attach("continue", "all")
    assert terminal.exit_status() == 1


def test_two_runs_in_one_directory_do_not_mix(directory: Directory) -> None:
    other = line_of("return total")
    first = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
    second = directory.run_to_prompt("--stop-at", f"train.py:{other}", *PYTHON, line=other)
    assert len({rank["job"] for rank in attach_list(directory.home)}) == 2
    second.send("c")
    assert second.exit_status() == STATUS
    assert first.row(-1).lstrip().split("  ")[1] == "stopped"
    go_through(first)
    assert first.exit_status() == STATUS
    assert text_of(first).count("total 3") == 1
    assert text_of(second).count("total 3") == 1
    assert len(directory.outputs()) == 2


def test_a_launcher_killed_leaves_the_broker_to_its_ranks_alone(directory: Directory) -> None:
    terminal = directory.run_to_prompt(*STOP, "--", "sh", "-c", f"{sys.executable} train.py; true", line=LINE)
    (rank,) = attach_list(directory.home)
    launcher = parent_of(rank["pid"])
    os.kill(launcher, signal.SIGKILL)
    terminal.send(DETACH)
    assert terminal.exit_status() == 128 + signal.SIGKILL
    (rank,) = attach_list(directory.home)
    assert rank["state"] == "stopped"
    attach(directory.home, "kill", "all", "-y")
    wait_for_broker_to_leave(directory, IDLE + seconds(10))
    assert directory.left_behind(terminal) == []


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def child_of(terminal: Terminal, part: str) -> int:
    """Return the child of a terminal's program that has ``part`` in its command line."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if part in command_line(int(path.name)) and parent_of(int(path.name)) == terminal.pid:
                return int(path.name)
        except OSError:
            continue
    raise AssertionError(f"no child with {part}")
