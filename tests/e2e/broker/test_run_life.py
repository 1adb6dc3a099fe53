"""A run from its beginning to its end; job and terminal are real processes of a few lines, and there is no broker."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from dbg_broker.run import keeper, life, own_broker, terminal
from dbg_broker.run.keeper import JobTerminal
from dbg_broker.run.own_broker import Found
from dbg_broker.run.remembered import Remembered, folder_of
from dbg_broker.run.settings import RunOptions, RunSettings
from tests.conftest import Approved

TERMINAL = """
import json, os, socket, sys
connection = socket.socket(fileno=int(sys.argv[-1]))
lines = connection.makefile()
def say(**told): connection.sendall(json.dumps(told).encode() + b"\\n")
task = json.loads(lines.readline())
"""
UNTIL_OVER = "lines.read()"
AGAIN_ONCE = """
if "." not in task["job"].rpartition("-")[2]:
    say(rank=1, again=True, took_part=True, breakpoints=[{"file": "/gone.py", "line": 3}])
    sys.exit()
say(took_part=True)
lines.read()
"""


class Lived:
    """A directory and a home in which commands run, and a record of what the runs say and start."""

    def __init__(self, home: Path, directory: Path) -> None:
        self.home, self.directory = home, directory
        self.lines: list[str] = []
        self.environments: list[Mapping[str, str]] = []
        self.by_force: list[Sequence[str]] = []
        self.terminals: list[bool] = []
        """For each job, whether it had a terminal of its own."""
        self.on_say: Callable[[str], None] = lambda _: None
        self.terminal = UNTIL_OVER

    def run(self, *command: str, again: bool = False, **options: object) -> int:
        settings = RunSettings(
            home=str(self.home),
            directory=str(self.directory),
            options=RunOptions(**options),  # type: ignore[arg-type]
            command=command,
            again=again,
        )
        return life.run(settings, os.environ, self._say)

    def _say(self, line: str) -> None:
        self.lines.append(line)
        self.on_say(line)

    def program(self, module: str, arguments: Sequence[str]) -> list[str]:
        if "--run" in arguments:
            return [sys.executable, "-c", TERMINAL + self.terminal, *arguments]
        self.by_force.append(arguments)
        return ["true"]

    def start(
        self, command: Sequence[str], environ: Mapping[str, str], output: int, terminal: JobTerminal | None = None
    ) -> keeper.Job:
        """Start a job without a keeper: the fork of a keeper would happen in a process with threads."""
        self.environments.append(environ)
        self.terminals.append(terminal is not None)
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        process.returncode = 0  # subprocess takes the process for ended, so only the run waits for it
        return keeper.Job(process.pid, process.pid)

    @property
    def last(self) -> Remembered:
        remembered = folder_of(self.home, str(self.directory)).load()
        assert remembered is not None
        return remembered


@pytest.fixture
def lived(made_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lived:
    lived = Lived(made_home, tmp_path)
    monkeypatch.setattr(own_broker, "find_or_start", lambda *_: Found("wss://127.0.0.1:1", is_loopback=True))
    monkeypatch.setattr(life, "is_attachable", lambda: True)
    monkeypatch.setattr(keeper, "start", lived.start)
    monkeypatch.setattr(terminal, "own_command", lived.program)
    monkeypatch.setattr(life, "own_command", lived.program)
    return lived


@pytest.mark.parametrize(("command", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143)])
def test_the_run_ends_as_its_job_does(lived: Lived, command: str, status: int) -> None:
    assert lived.run("sh", "-c", command) == status
    assert lived.lines[0].startswith(f"job sh-{os.getpid()}, its output in {lived.home}")


def test_what_was_set_in_the_debugger_is_remembered(lived: Lived) -> None:
    lived.terminal = 'say(rank=3, took_part=True, breakpoints=[{"file": "/a.py", "line": 7}]); lines.read()'
    lived.run("true", stop_in=("a:f",))

    assert (lived.last.command, lived.last.options.stop_in, lived.last.rank) == (("true",), ("a:f",), 3)
    assert [(kept.stop.file, kept.stop.line) for kept in lived.last.breakpoints] == [("/a.py", 7)]
    assert lived.environments[0]["DBG_STOP_IN"] == "a:f"


def test_a_job_that_no_rank_took_part_in_is_asked_about(
    approved: Approved, lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived.run("true")
    approved(lived.lines[-1])

    lived.terminal = "say(took_part=True); lines.read()"
    lived.run("true")
    assert life.NO_RANK_TOOK_PART not in lived.lines[-1]


def test_where_no_terminal_has_looked_nobody_is_missed(lived: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "is_attachable", lambda: False)
    lived.run("true")
    assert lived.lines[-1].endswith(f"dbg-attach --follow true-{os.getpid()}/stopped")


def test_a_terminal_that_ends_leaves_the_job_and_says_how_to_come_back(lived: Lived, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    lived.terminal = "sys.exit()"

    def open_gate(line: str) -> None:
        # The way back is said at the beginning, and again when the terminal has ended.
        if line.endswith("/stopped") and sum(said.endswith("/stopped") for said in lived.lines) == 2:
            gate.write_text("on\n")

    lived.on_say = open_gate
    assert lived.run("sh", "-c", f"read line < {gate}; exit 4") == 4
    assert lived.lines[-1].endswith(f"dbg-attach --follow sh-{os.getpid()}/stopped")


def test_again_ends_the_job_and_does_the_same(lived: Lived) -> None:
    lived.terminal = AGAIN_ONCE
    command = (
        "sh",
        "-c",
        "case $0 in *) test -e $0 && exit 5; touch $0; exec sleep 1000;; esac",
        str(lived.directory / "x"),
    )
    assert lived.run(*command, stop_in=("a:f",)) == 5

    one, two = lived.environments
    assert (one["DBG_JOB"], two["DBG_JOB"]) == (f"sh-{os.getpid()}", f"sh-{os.getpid()}.2")
    assert (two["DBG_STOP_IN"], two["DBG_STOP_AT"]) == ("a:f", "/gone.py:3")
    assert any(line.startswith("again: dbg-broker run --stop-in a:f") for line in lived.lines)
    assert lived.by_force == []
    assert (lived.last.command, lived.last.rank) == (command, 1)


def test_again_is_not_mixed_with_another_run_of_the_directory(lived: Lived) -> None:
    lived.terminal = AGAIN_ONCE

    def another(line: str) -> None:
        if line.startswith("ending job"):
            other = Remembered(command=("false",), options=RunOptions())
            folder_of(lived.home, str(lived.directory)).save(other)

    lived.on_say = another
    assert lived.run("sh", "-c", "test -e $0 && exit 5; touch $0; exec sleep 1000", str(lived.directory / "x")) == 5


def test_a_job_that_does_not_go_is_ended_by_force_on_all_hosts(lived: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "END_SECONDS", 0.2)
    lived.terminal = AGAIN_ONCE
    ignores = "test -e $0 && exit 5; trap '' TERM; touch $0; while :; do sleep 0.05; done"
    lived.on_say = lambda line: wait_for(lived.directory / "x") if line.startswith("ending job") else None
    assert lived.run("sh", "-c", ignores, str(lived.directory / "x")) == 5

    assert lived.by_force == [["kill", f"sh-{os.getpid()}/all", "-y"]]


def wait_for(path: Path) -> None:
    while not path.exists():
        os.sched_yield()


def test_signals_are_as_they_were(lived: Lived) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
    before = [signal.getsignal(number) for number in numbers]
    lived.run("true")
    assert [signal.getsignal(number) for number in numbers] == before


UNTIL_REAPED = "for _ in $(seq 400); do kill -0 $0 2>/dev/null || exit 0; sleep 0.02; done; exit 9"
"""A command that ends as soon as the process with the given number is gone; a zombie is not gone."""


def test_a_broker_that_died_is_waited_for_at_once(lived: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    broker = subprocess.Popen(["sh", "-c", "read line; exit 1"], stdin=read)
    os.close(read)
    found = [Found("wss://127.0.0.1:1", hold=write, process=broker), Found("wss://127.0.0.1:2")]
    monkeypatch.setattr(own_broker, "find_or_start", lambda *_: found.pop(0))
    lived.on_say = lambda line: broker.kill() if "its output in" in line else None
    assert lived.run("sh", "-c", UNTIL_REAPED, str(broker.pid)) == 0
    assert not found


def test_the_job_has_a_terminal_of_its_own_if_that_is_asked_for(lived: Lived) -> None:
    lived.run("true", pty=True)
    lived.run(again=True)
    lived.run("true", pty=False)
    assert lived.terminals == [True, True, False]


def test_no_terminal_left_costs_the_job_nothing(
    approved: Approved, lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> JobTerminal:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(life, "JobTerminal", none_left)
    assert lived.run("sh", "-c", "exit 3", pty=True) == 3
    approved(lived.lines[0])
