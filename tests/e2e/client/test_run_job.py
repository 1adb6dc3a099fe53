"""The terminal of a run in a real window, with a scripted run and a scripted broker."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_wire.messages import Action, Change, Question
from dbg_wire.messages.run_terminal import Task, Told, decode_told, encode_line
from dbg_wire.records.ranks import RankState
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import FakeBroker, make_rank

RUN = r"""
import signal, socket, subprocess, sys
ours, theirs = socket.socketpair()
command = [sys.executable, "-m", "dbg_client", "--run", str(theirs.fileno())]
terminal = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
theirs.close()
signal.signal(signal.SIGHUP, lambda number, _: terminal.send_signal(number))
ours.sendall(sys.argv[1].encode())
for line in ours.makefile("rb"):
    with open(sys.argv[2], "ab") as told:
        told.write(line)
    if b'"again":true' in line:
        ours.sendall(b"over\n")
sys.exit(terminal.wait())
"""

FIVE, SIX = make_rank(5), make_rank(6)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(FIVE, SIX) as serving:
        yield serving


class Window(Terminal):
    """The terminal of a run whose job prints into a file."""

    def __init__(self, broker: FakeBroker, environ: dict[str, str], folder: Path, **task: object) -> None:
        self._output, self._told = folder / "job.out", folder / "told"
        self._output.write_text("hello from the job\n")
        self._told.touch()
        line = encode_line(Task(job="4711.0", output=str(self._output), **task))  # type: ignore[arg-type]
        command = [sys.executable, "-c", RUN, line.decode(), str(self._told)]
        super().__init__(command, 24, 100, {**environ, **broker.environment})

    def __enter__(self) -> Window:
        return self

    def at(self, address: str) -> None:
        """Wait until the debugger of a rank is on the screen."""
        self.wait_for(lambda it: it.row(0) == "PUDB SCREEN" and it.row(-1).startswith(f" {address}"))

    def prints(self, text: str) -> None:
        with self._output.open("a") as output:
            output.write(text)

    @property
    def told(self) -> list[Told]:
        return [decode_told(line) for line in self._told.read_bytes().splitlines()]


def test_it_goes_to_the_stop_and_shows_what_the_job_prints_afterwards(
    broker: FakeBroker, environ: dict[str, str], tmp_path: Path
) -> None:
    with Window(broker, environ, tmp_path) as window:
        window.at("gpu013:5")
        assert b"hello from the job" in window.output
        window.prints("printed meanwhile\n")
        window.send("\x1dd")
        window.wait_for("Detached from gpu013:5")
        window.wait_for("printed meanwhile")

        # What is told to the run goes its own way, beside what is on the screen.
        window.wait_for(lambda _: window.told[-1] == Told(rank=5, took_part=True))


def test_the_way_back_is_told_again_below_what_the_job_prints(
    broker: FakeBroker, environ: dict[str, str], tmp_path: Path
) -> None:
    with Window(broker, environ, tmp_path) as window:
        window.at("gpu013:5")
        window.send("\x1dd")
        window.wait_for("Enter ")
        for number in range(30):
            window.prints(f"printed {number}\n")
        window.wait_for(lambda it: "printed 29" in it.screen[-3:-1] and it.screen[-1].startswith("gpu013:5 "))
        window.prints("\r 50%|####    |")
        window.prints("\r100%|########|")
        window.wait_for(lambda it: "100%|########|" in it.screen and it.screen[-1].startswith("gpu013:5 "))
        window.send("\r")
        window.at("gpu013:5")
        window.send("\x1dd")
        window.wait_for("Enter ")
        assert not any(row.startswith("gpu013:5 and ") for row in window.screen)


def test_what_is_waited_for_is_told_until_the_first_stop(
    broker: FakeBroker, environ: dict[str, str], tmp_path: Path
) -> None:
    running = [make_rank(rank, state=RankState.RUNNING, where=None, reason=None, world_size=3) for rank in (5, 6, 7)]
    broker.ranks = {rank.key: rank for rank in running[:2]}
    with Window(broker, environ, tmp_path, stops=("train.py:38",)) as window:
        window.wait_for(re.compile(r"^2 of 3 ranks .*\(\d s\)$", re.MULTILINE))
        broker.tell(Change(rank=running[2]))
        window.wait_for(re.compile(r"^3 of 3 ranks .* train.py:38 \(\d s\)$", re.MULTILINE))
        window.prints("printed\n")
        window.wait_for(re.compile(r"^hello from the job\nprinted\n\n3 of 3 ranks ", re.MULTILINE))
        broker.tell(Change(rank=FIVE))
        window.at("gpu013:5")
        window.send("\x1dd")
        window.wait_for("Enter ")
        assert "connected" not in "\n".join(window.screen)


def test_a_terminal_without_a_cursor_shows_the_output_alone(
    broker: FakeBroker, environ: dict[str, str], tmp_path: Path
) -> None:
    with Window(broker, {**environ, "TERM": "dumb"}, tmp_path) as window:
        window.wait_for("TERM is dumb")
        window.wait_for("hello from the job")
        window.prints("printed\n")
        window.wait_for("printed")
        assert "connected" not in "\n".join(window.screen)
        assert broker.received == []


def test_a_stop_that_stays_after_ctrl_c_is_told(broker: FakeBroker, environ: dict[str, str], tmp_path: Path) -> None:
    with Window(broker, environ, tmp_path) as window:
        window.at("gpu013:5")
        window.send("\x1dd")
        window.wait_for("Enter ")
        (terminal,) = terminals(window)
        os.kill(terminal, signal.SIGINT)
        window.wait_for(re.compile("Ctrl-C.*gpu013:5 and 1 more"))


def test_whoever_agrees_gets_another_run_and_what_the_job_has_left_is_ended(
    broker: FakeBroker, environ: dict[str, str], tmp_path: Path
) -> None:
    with Window(broker, environ, tmp_path) as window:
        before = window.settings()
        window.at("gpu013:5")
        window.send("\x1dRy")
        question = broker.wait_for(Question)
        assert (question.action, set(question.keys)) == (Action.KILL, {FIVE.key, SIX.key})

        assert window.exit_status() == 0
        assert window.told[-1] == Told(rank=5, again=True, took_part=True)
        assert window.settings() == before
        assert 1049 not in window.virtual.private_modes


def test_a_window_that_closes_after_one_has_left_the_debugger_ends_it(
    broker: FakeBroker, environ: dict[str, str], tmp_path: Path
) -> None:
    with Window(broker, environ, tmp_path) as window:
        window.at("gpu013:5")
        window.send("\x1dd")
        window.wait_for("Enter ")
        window.close_window()
        window.exit_status()


def test_keys_that_are_meant_for_the_job_end_nothing(
    broker: FakeBroker, environ: dict[str, str], tmp_path: Path
) -> None:
    with Window(broker, environ, tmp_path, attach=False) as window:
        window.wait_for("hello from the job")
        (terminal,) = terminals(window)
        for number in (signal.SIGINT, signal.SIGQUIT):
            os.kill(terminal, number)
        window.prints("still shown\n")
        window.wait_for("still shown")


def terminals(window: Window) -> list[int]:
    children = Path(f"/proc/{window.pid}/task/{window.pid}/children").read_text()
    return [int(number) for number in children.split()]
