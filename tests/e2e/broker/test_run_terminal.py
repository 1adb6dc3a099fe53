"""The socket between a run and its terminal; a program of a few lines stands for the terminal."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dbg_broker.run import terminal as module
from dbg_broker.run.terminal import TerminalProcess
from dbg_broker.run.tmux_session import NoSession, run_in_session
from dbg_wire.errors import BadInput
from dbg_wire.messages.run_terminal import Task, Told
from tests.conftest import Approved

TASK = Task(job="train-7", output="/job.out", prefer=3, commands="/first.pdb", attach=False)

PROGRAM = """
import json, os, signal, socket, sys
connection = socket.socket(fileno=int(sys.argv[-1]))
def say(**told): connection.sendall(json.dumps(told).encode() + b"\\n")
"""

REPEAT = """
task = json.loads(connection.makefile().readline())
say(rank=task["prefer"], took_part=True)
connection.recv(1)
say(rank=5, breakpoints=[{"file": os.environ["DBG_HOME"], "line": 1}])
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the parts of the program that stands for the terminal; a test may change them before the start."""
    lines = [PROGRAM, REPEAT]

    def command(_: str, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-c", "".join(lines), *arguments]

    monkeypatch.setattr(module, "own_command", command)
    return lines


def read_until(terminal: TerminalProcess, told: Told) -> None:
    while terminal.told != told:
        assert terminal.read(), "it said no more"


def test_it_is_told_what_to_do_and_tells_what_happens(program: list[str], tmp_path: Path) -> None:
    terminal = TerminalProcess(TASK, {**os.environ, "DBG_HOME": "of another"}, str(tmp_path))
    read_until(terminal, Told(rank=3, took_part=True))
    terminal.job_is_over()
    assert terminal.process.wait() == 0
    terminal.close()

    assert terminal.told.rank == 5
    assert [point.file for point in terminal.told.breakpoints] == [str(tmp_path)]


LONG = """
point = {"file": "/" + 200 * "a", "line": 1}
say(rank=1)
say(rank=2, breakpoints=[{**point, "line": 1 + n} for n in range(1000)])
"""
NONSENSE = r"""say(rank=1); say(color="red"); connection.sendall(b'\xff\n{\n[]\n{"rank":9}')"""
WITHIN_A_RUN = {"DBG_AUTOSTART": str(os.getpid()), "DBG_STOP_AT": "a.py:1", "DBG_STOP_IN": "a:f"}


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (LONG, (2, 1000)),
        (NONSENSE, (1, 0)),
        ("connection.close()", (None, 0)),
        ("say(rank=int(signal.getsignal(signal.SIGINT) is signal.SIG_IGN))", (1, 0)),
        (f"say(rank=sum(name in os.environ for name in {[*WITHIN_A_RUN]}))", (0, 0)),
    ],
    ids=["a long text", "nonsense and half a line", "nothing", "that Ctrl-C is not for it", "that it is no rank"],
)
def test_what_it_says_last_is_taken_and_nonsense_changes_nothing(
    program: list[str], says: str, told: tuple[int | None, int]
) -> None:
    program[1] = says
    before = signal.getsignal(signal.SIGINT)
    terminal = TerminalProcess(TASK, {**os.environ, **WITHIN_A_RUN}, "/h")
    while terminal.has_more:
        terminal.read()
    assert terminal.process.wait() == 0
    # Nobody listens any more, which is no error.
    terminal.job_is_over()
    terminal.close()
    assert (terminal.told.rank, len(terminal.told.breakpoints)) == told
    assert signal.getsignal(signal.SIGINT) is before


COMMAND = ["sh", "-c", 'echo "$SECRET $PWD $TERM"; exit 3']


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """An environment whose tmux runs the pane at once, its output in a file, and then shows it."""
    monkeypatch.setattr("dbg_broker.run.tmux_session.os.isatty", lambda _: True)
    monkeypatch.setattr("dbg_broker.run.tmux_session.os.get_terminal_size", lambda _: (100, 30))
    script = tmp_path / "tmux"
    # Without the environment of whoever asked, as a server of tmux has it.
    script.write_text(
        f"""#!/bin/sh
echo "$*" >>{tmp_path}/calls
case "$1" in
new-session)
    while [ "$1" != sh ]; do shift; done
    mkfifo {tmp_path}/done
    (env -i TERM=tmux "$@" </dev/null >{tmp_path}/pane 2>&1; echo >{tmp_path}/done) >/dev/null 2>&1 &
    echo '$7';;
attach-session) read end <{tmp_path}/done;;
esac
"""
    )
    script.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "SECRET": "insecure-word", "TERM": "xterm"}
    monkeypatch.setenv("PATH", environ["PATH"])
    return environ


def test_the_run_has_the_environment_and_its_status_comes_back(
    approved: Approved, environ: dict[str, str], tmp_path: Path
) -> None:
    said: list[str] = []
    assert run_in_session(COMMAND, environ, str(tmp_path), said.append) == 3
    pane, calls = (tmp_path / "pane").read_text(), (tmp_path / "calls").read_text()
    assert pane.startswith(f"insecure-word {tmp_path} tmux\n")
    approved(pane)
    assert "insecure-word" not in calls
    assert "new-session -d -P -F #{session_id} -n dbg-broker -x 100 -y 30" in calls
    assert calls.endswith("attach-session -t $7\n")
    assert said == []


def test_without_tmux_or_a_terminal_it_is_refused(
    approved: Approved, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoSession, match="not on PATH"):
        run_in_session(COMMAND, {**environ, "PATH": "/nowhere"}, str(tmp_path), print)
    monkeypatch.setattr("dbg_broker.run.tmux_session.os.isatty", lambda _: False)
    with pytest.raises(BadInput) as caught:
        run_in_session(COMMAND, environ, str(tmp_path), print)
    approved(str(caught.value))
