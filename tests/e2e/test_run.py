"""``dbg-broker run``: one command from an edit to the prompt, which leaves alone what is not its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import attach, attach_list, wait_until
from tests.support.runs import (
    IDLE,
    PROGRAM,
    STATUS,
    STEP,
    Directory,
    command_line,
    ends_within,
    line_of,
    text_of,
    wait_for_prompt,
)
from tests.support.sessions import DETACH
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

LINE = line_of(STEP)
STOP = ("--stop-at", f"train.py:{LINE}")
PYTHON = ("--", sys.executable, "train.py")

CYCLES = 5
"""Runs in one directory, one after the other, so that anything left behind by each of them adds up."""


def go_through(terminal: Terminal, line: int = LINE) -> None:
    """Go on from each of the three stops in the loop."""
    for step in range(3):
        wait_for_prompt(terminal, line)
        terminal.wait_for(re.compile(rf"step: {step}\b"))
        terminal.send("c")


def wait_for_broker_to_leave(directory: Directory, patience: float) -> None:
    """Wait for the broker of the home to end by itself; fail unless it does within ``patience`` seconds."""
    document = json.loads((directory.home / "broker.json").read_text())
    assert ends_within(document["pid"], patience), "the broker stays"


class TestOneCommand:
    def test_shows_the_prompt_with_no_key_and_returns_the_status(self, directory: Directory) -> None:
        terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
        go_through(terminal)
        assert terminal.exit_status() == STATUS
        shown = text_of(terminal)
        assert re.search(r"begins\n(.*\n)*total 0\ntotal 1\ntotal 3\nends", shown), shown
        (output,) = directory.outputs()
        assert str(output) in shown.replace("\n", "")
        assert "begins\n" in output.read_text()
        assert "ends\n" in output.read_text()

    def test_finds_the_broker_that_is_there_and_leaves_it(self, directory: Directory, processes: Processes) -> None:
        broker = running_broker(processes, directory.home)
        terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
        directory.attach("kill", "all", "-y")
        assert terminal.exit_status() == 128 + signal.SIGKILL
        assert broker.rendezvous["pid"] == json.loads((directory.home / "broker.json").read_text())["pid"]
        assert [rank["state"] for rank in attach_list(directory.home, "--all")] == ["exited"]

    def test_its_own_broker_has_its_options_and_leaves_when_nobody_needs_it(self, directory: Directory) -> None:
        directory.write("#!/bin/sh\ncat >told.part; mv told.part told\n", "tell.sh").chmod(0o700)
        options = ("--record", "casts", "--on-event", "./tell.sh", "--max-lease", "8h")
        terminal = directory.run_to_prompt(*options, *STOP, *PYTHON, line=LINE)
        terminal.wait_for(lambda _: (directory.path / "told").exists())
        assert json.loads((directory.path / "told").read_text())["event"] == "stop"
        terminal.wait_for(lambda _: list((directory.path / "casts").glob("*/*-stop1-*.cast")))
        assert "480 min" in directory.attach("list")
        directory.attach("kill", "all", "-y")
        terminal.exit_status()
        wait_for_broker_to_leave(directory, IDLE + seconds(10))
        assert not (directory.home / "broker.json").exists()
        assert directory.left_behind(terminal) == []

    def test_a_job_that_ends_before_any_stop(self, directory: Directory) -> None:
        directory.write("import sys\nprint('so far', flush=True)\nsys.exit('no good')\n")
        terminal = directory.run("--stop-at", "train.py:3", "--", "sh", "-c", "echo first; exit 5")
        assert terminal.exit_status() == 5
        assert "first" in text_of(terminal)
        terminal = directory.run(*PYTHON)
        assert terminal.exit_status() == 1
        assert re.search(r"so far\nno good", text_of(terminal))

    def test_a_signal_that_ends_it(self, directory: Directory) -> None:
        assert directory.run("--", "sh", "-c", "kill -SEGV $$").exit_status() == 128 + signal.SIGSEGV

    @pytest.mark.parametrize(
        ("options", "status", "said"),
        [
            ([], 2, "no command to run"),
            (["--", "no-such-command"], 127, "'no-such-command' can't be started (No such file or directory)"),
            (["--", "./train.py"], 126, "Permission denied"),
            (["--engine", "gdb", "--", "true"], 2, "--engine 'gdb'"),
            (["--stop-at", "train.py", "--", "true"], 2, "no place to stop at"),
            (["--stop-at", "train.py:99", "--", "true"], 2, "behind the file's end, which has 13 lines"),
            (["--stop-in", "train", "--", "true"], 2, "no function to stop in"),
            (["--ranks", "x", "--", "true"], 2, "'x'"),
            (["--collective-timeout", "soon", "--", "true"], 2, "--collective-timeout 'soon'"),
            (["-x", "missing", "--", "true"], 2, "missing can't be read"),
            (["--again", "--", "true"], 2, "--again repeats the last command"),
            (["--again"], 2, "no run in"),
            (["--output", "/nowhere/at/all", "--", "true"], 2, "can't be written to /nowhere/at/all"),
        ],
    )
    def test_what_can_not_be_used(self, directory: Directory, options: list[str], status: int, said: str) -> None:
        terminal = directory.run(*options, cols=300)
        assert terminal.exit_status() == status
        assert said in text_of(terminal)
        assert "Traceback" not in text_of(terminal)

    def test_without_a_terminal_output_and_status_pass(self, directory: Directory) -> None:
        result = subprocess.run(
            directory.command("--", sys.executable, "train.py"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=directory.processes.marked(directory.variables),
            timeout=seconds(30),
        )
        assert result.returncode == STATUS
        assert result.stdout == b"begins\ntotal 0\ntotal 1\ntotal 3\nends\n"
        assert b"dbg-attach --follow train-" in result.stderr

    def test_names_the_output_that_was_asked_for(self, directory: Directory) -> None:
        assert directory.run("--output", "out.txt", *PYTHON).exit_status() == STATUS
        assert (directory.path / "out.txt").read_text().startswith("begins\n")
        assert directory.outputs() == []


class TestAgain:
    def test_the_second_time_is_the_same_with_no_key_and_waits_for_no_broker(self, directory: Directory) -> None:
        first = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
        broker = json.loads((directory.home / "broker.json").read_text())["pid"]
        directory.attach("kill", "all", "-y")
        first.exit_status()
        for options in ((*STOP, *PYTHON), ("--again",)):
            terminal = directory.run_to_prompt(*options, line=LINE)
            assert json.loads((directory.home / "broker.json").read_text())["pid"] == broker
            directory.attach("kill", "all", "-y")
            terminal.exit_status()

    def test_breakpoints_set_in_pudb_are_set_again(self, directory: Directory) -> None:
        terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
        terminal.send("jjb")
        terminal.send("c")
        terminal.wait_for(re.compile(r"step: 1\b"))
        directory.attach("kill", "all", "-y")
        terminal.exit_status()
        directory.write(f"# a new line\n{PROGRAM}")
        again = directory.run("--again", rows=40)
        wait_for_prompt(again, LINE + 1)
        returned = line_of("return total") + 1
        go_through(again, LINE + 1)
        wait_for_prompt(again, returned)
        again.send("c")
        assert again.exit_status() == STATUS
        shown = text_of(again)
        assert f"line {LINE + 1} now" in shown
        assert f"--stop-at {directory.path}/train.py:{returned}" in shown.replace("\n", "")

    def test_ctrl_bracket_r_ends_the_job_and_starts_it_again(self, directory: Directory) -> None:
        terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
        (before,) = attach_list(directory.home)
        terminal.send(b"\x1dR")
        terminal.wait_for("End the job and run it again? [y/N]")
        terminal.send("n")
        terminal.wait_for("stopped")
        terminal.send(b"\x1dR")
        terminal.wait_for("End the job and run it again? [y/N]")
        directory.write(f"\n\n{PROGRAM}")
        terminal.send("y")
        wait_for_prompt(terminal, LINE + 2)
        (now,) = attach_list(directory.home)
        assert now["pid"] != before["pid"]
        assert now["job"] != before["job"]
        directory.attach("kill", "all", "-y")
        assert terminal.exit_status() == 128 + signal.SIGKILL

    def test_cycles_leave_nothing_behind(self, directory: Directory) -> None:
        source, seen, terminals = PROGRAM, [], []
        options: tuple[str, ...] = (*STOP, *PYTHON)
        for cycle in range(CYCLES):
            terminal = directory.run_to_prompt(*options, line=LINE + cycle)
            terminals.append(terminal)
            terminal.send(DETACH)
            terminal.wait_for("Enter comes back")
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


class TestTheTerminal:
    def test_leaving_leaves_the_job_and_enter_comes_back(self, directory: Directory) -> None:
        terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
        terminal.send(DETACH)
        terminal.wait_for("which stays as it is; Enter comes back.")
        assert [rank["state"] for rank in attach_list(directory.home)] == ["stopped"]
        terminal.send("\r")
        terminal.wait_for(DRAWN)
        terminal.send(DETACH)
        terminal.wait_for(lambda seen: text_of(seen).count("Enter comes back.") == 2)
        directory.attach("continue", "all")
        wait_for_prompt(terminal, LINE)
        terminal.wait_for(re.compile(r"step: 1\b"))
        directory.attach("kill", "all", "-y")
        terminal.exit_status()

    def test_ctrl_c_goes_to_the_job(self, directory: Directory) -> None:
        directory.write("import time\nprint('waits', flush=True)\ntime.sleep(600)\n")
        terminal = directory.run(*PYTHON)
        terminal.wait_for("waits")
        terminal.send(b"\x03")
        assert terminal.exit_status() == 128 + signal.SIGINT
        assert "KeyboardInterrupt" in text_of(terminal)
        assert "dbg_client" not in text_of(terminal)

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio takes Ctrl-C for itself since Python 3.11")
    def test_a_first_ctrl_c_that_asyncio_keeps_to_itself_is_told(self, directory: Directory) -> None:
        directory.write("import asyncio\n\nasync def main():\n    breakpoint()\n\nasyncio.run(main())\n")
        terminal = directory.run(*PYTHON)
        terminal.wait_for(DRAWN)
        terminal.send(DETACH)
        terminal.wait_for("Enter comes back.")
        terminal.send(b"\x03")
        terminal.wait_for("stayed at its stop")
        terminal.send(b"\x03")
        assert terminal.exit_status() == 128 + signal.SIGINT

    def test_what_is_typed_while_the_job_ends_is_for_the_shell(self, directory: Directory) -> None:
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

    def test_closing_it_leaves_broker_and_job(self, directory: Directory) -> None:
        terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
        (told,) = re.findall(rb"if this terminal closes: .*dbg-attach --follow (\S+)", terminal.output)
        terminal.close_window()
        terminal.exit_status()
        (rank,) = attach_list(directory.home)
        assert rank["state"] == "stopped"
        assert told.decode() == f"{rank['job']}/stopped"
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

    def test_killing_it_gives_the_screen_back_and_the_job_goes_on(self, directory: Directory) -> None:
        terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
        os.kill(child_of(terminal, "dbg_client"), signal.SIGKILL)
        terminal.wait_for("and the job goes on; its output in")
        assert DRAWN not in text_of(terminal)
        assert [rank["state"] for rank in attach_list(directory.home)] == ["stopped"]
        directory.attach("kill", "all", "-y")
        assert terminal.exit_status() == 128 + signal.SIGKILL

    def test_killing_the_run_gives_the_screen_back_too(self, directory: Directory) -> None:
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

    def test_its_own_broker_is_started_again_when_it_dies(self, directory: Directory) -> None:
        terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
        first = json.loads((directory.home / "broker.json").read_text())["pid"]
        os.kill(first, signal.SIGKILL)

        def is_back(_: Terminal) -> bool:
            return bool(json.loads((directory.home / "broker.json").read_text())["pid"] != first)

        terminal.wait_for(is_back)
        terminal.wait_for(re.compile(rf"stopped  train\.py:{LINE} in "))
        terminal.send("n")
        wait_for_prompt(terminal, LINE + 1)
        directory.attach("kill", "all", "-y")
        assert terminal.exit_status() == 128 + signal.SIGKILL


class TestOptions:
    def test_pdb_with_commands(self, directory: Directory) -> None:
        (directory.path / "first.pdb").write_text("p 40 + 2\n")
        terminal = directory.run("--engine", "pdb", "-x", "first.pdb", *STOP, *PYTHON)
        terminal.wait_for(re.compile(r"^42$", re.MULTILINE))
        terminal.wait_for("(Pdb)")
        terminal.send(f"b {LINE + 1}, total > 0\r")
        terminal.wait_for("Breakpoint 1 at")
        directory.attach("kill", "all", "-y")
        terminal.exit_status()
        again = directory.run("--again", cols=200)
        again.wait_for(f"train.py:{LINE + 1}, total > 0")
        directory.attach("list", "--wait")
        directory.attach("kill", "all", "-y")
        again.exit_status()

    def test_a_crash_is_kept(self, directory: Directory) -> None:
        directory.write("def fails():\n    local = 1\n    return local / 0\n\nfails()\n")
        directory.environ = {"DBG_LEASE": "600"}  # without it, no crash is kept in a test run
        terminal = directory.run("--post-mortem", *PYTHON)
        terminal.wait_for(DRAWN)
        terminal.wait_for(re.compile("ZeroDivisionError"))
        directory.attach("continue", "all")
        assert terminal.exit_status() == 1

    def test_a_crash_that_takes_long_to_end_is_told_as_let_go(self, directory: Directory) -> None:
        os.mkfifo(directory.path / "end")
        directory.write("import atexit\natexit.register(lambda: open('end').read())\nraise ValueError('bad batch')\n")
        directory.environ = {"DBG_LEASE": "600"}
        terminal = directory.run("--post-mortem", *PYTHON)
        terminal.wait_for(DRAWN)
        directory.attach("continue", "all")
        terminal.wait_for("was let go after ValueError: bad batch, and has not ended yet")
        terminal.wait_for("waiting for its end, or the next stop.")
        (directory.path / "end").write_text("")
        assert terminal.exit_status() == 1

    def test_a_function(self, directory: Directory) -> None:
        (directory.path / "parts.py").write_text("def work():\n    return 1\n")
        directory.write("import parts\nparts.work()\n")
        terminal = directory.run_to_prompt("--stop-in", "parts:work", *PYTHON, line=2)
        directory.attach("kill", "all", "-y")
        terminal.exit_status()

    def test_a_breakpoint_in_the_code(self, directory: Directory) -> None:
        directory.write("x = 1\nbreakpoint()\ny = 2\n")
        terminal = directory.run(*PYTHON)
        terminal.wait_for(DRAWN)
        terminal.send("c")
        assert terminal.exit_status() == 0


def test_a_directory_that_was_removed_is_named(directory: Directory) -> None:
    run = str(Path(sys.executable).with_name("dbg-broker"))
    script = f"mkdir gone && cd gone && rmdir ../gone && {run} run -- true"
    terminal = directory.open_terminal(
        ["env", "-C", str(directory.path), "sh", "-c", script], rows=24, cols=120, env=directory.variables
    )
    assert terminal.exit_status() == 2
    assert "the current directory was removed; change to one that is there" in text_of(terminal)


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
    assert "a rank of it is still there" in text_of(terminal)
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
