"""``dbg-attach run`` many times, in two windows, killed, and beside programs with habits of their own."""

from __future__ import annotations

import re
import shlex
import signal
import sys
from pathlib import Path

from dbg_client.run.job import COMES_BACK
from dbg_command.home import JOB_TOKENS_DIRECTORY
from tests.support.ranks import attach_list, wait_until
from tests.support.runs import (
    IDLE,
    LINE,
    PROGRAM,
    PYTHON,
    STOP,
    Directory,
    go_through,
    text_of,
    wait_for_broker_to_leave,
    wait_for_prompt,
)
from tests.support.sessions import DETACH
from tests.support.time_unit import seconds

CYCLES = 5
"""Runs in one directory, one after the other, so that anything left behind by each of them adds up."""


def test_repeated_runs_leave_no_process_and_no_additional_file(directory: Directory) -> None:
    source, seen, terminals = PROGRAM, [], []
    for cycle in range(CYCLES):
        terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
        terminals.append(terminal)
        terminal.send(DETACH)
        terminal.wait_for(COMES_BACK)
        terminal.send(b"\x03")
        assert terminal.exit_status() == 128 + signal.SIGINT
        left = [path for path in directory.home.rglob("*") if path.is_file()]
        # The tokens of jobs, a line each, stay for ranks that outlive their run.
        seen.append(sorted(path.suffix for path in left if path.parent.name != JOB_TOKENS_DIRECTORY))
        source = f"{source}# {cycle}\n"
        directory.write(source)
    assert seen[1:] == [seen[1]] * (CYCLES - 1)
    wait_for_broker_to_leave(directory, IDLE + seconds(10))
    assert directory.left_behind(*terminals) == []
    assert sorted(path.name for path in directory.path.iterdir()) in (["train.py"], ["__pycache__", "train.py"])


def test_keys_typed_at_the_end_of_the_job_reach_the_shell(directory: Directory) -> None:
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


def test_broker_and_job_survive_a_closed_terminal(directory: Directory) -> None:
    terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
    (target,) = re.findall(rb"if this terminal closes: .*dbg-attach --follow (\S+)", terminal.output)
    terminal.close_window()
    terminal.exit_status()
    (rank,) = attach_list(directory.home)
    assert rank["state"] == "stopped"
    assert target.decode() == f"{rank['job']}/stopped"
    wait_until(directory.home, lambda ranks: ranks[0]["driver"] is None, "nobody there")
    back = directory.open_terminal(
        [str(Path(sys.executable).with_name("dbg-attach")), "--follow", f"{rank['job']}/stopped"],
        rows=30,
        cols=140,
        env=directory.variables,
    )
    wait_for_prompt(back, LINE)
    go_through(back)
    back.wait_for(f"Waiting for {rank['job']}/stopped to stop")
    (output,) = directory.outputs()
    back.wait_for(lambda _: output.read_text().endswith("ends\n"))
    back.send(b"\x03")
    back.exit_status()
    wait_for_broker_to_leave(directory, IDLE + seconds(10))
    assert directory.left_behind(terminal, back) == []
