"""The terminal of a run in a real window, with a job that only waits and a scripted broker."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_wire.messages import Change
from dbg_wire.records.ranks import RankState
from tests.support.processes import Processes
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import FakeBroker, make_rank

RUN = r"""
import asyncio, json, os, sys
from dbg_client.run import job
from dbg_client.run.job_process import JobProcess
from dbg_client.run.options import Task
from dbg_client.run.verb import Run
job.END_SECONDS, job.STILL_SECONDS = 0.5, 1.0
process, task = JobProcess(), Task(**json.loads(sys.argv[1]))
output = os.open(task.output, os.O_WRONLY | os.O_APPEND)
with process.signals_passed_on():
    process.start(["sh", "-c", sys.argv[2]], os.environ, output)
    os.close(output)
    asyncio.run(job.follow_job(Run(), task, process))
sys.exit(process.wait())
"""

WAITS = "exec sleep 600"

FIVE, SIX = make_rank(5), make_rank(6)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(FIVE, SIX) as serving:
        yield serving


@pytest.fixture
def environ(environ: dict[str, str], processes: Processes) -> dict[str, str]:
    """Return the environment of a terminal whose job, which outlives it, ends with the test."""
    return processes.marked(environ)


class Window(Terminal):
    """The terminal of a run whose job prints into a file."""

    def __init__(
        self, broker: FakeBroker, environ: dict[str, str], folder: Path, job: str = WAITS, **task: object
    ) -> None:
        self._output = folder / "job.out"
        self._output.write_text("hello from the job\n")
        document = json.dumps({"job": "4711.0", "output": str(self._output), **task})
        command = [sys.executable, "-c", RUN, document, job]
        super().__init__(command, 24, 100, {**environ, **broker.environment})

    def __enter__(self) -> Window:
        return self

    def at(self, address: str) -> None:
        """Wait until the debugger of a rank is on the screen."""
        self.wait_for(lambda it: it.row(0) == "PUDB SCREEN" and it.row(-1).startswith(f" {address}"))

    def prints(self, text: str) -> None:
        with self._output.open("a") as output:
            output.write(text)


def test_the_awaited_ranks_are_shown_until_the_first_stop(
    broker: FakeBroker, environ: dict[str, str], tmp_path: Path
) -> None:
    running = [make_rank(rank, state=RankState.RUNNING, where=None, reason=None, world_size=3) for rank in (5, 6, 7)]
    broker.ranks = {rank.key: rank for rank in running[:2]}
    with Window(broker, environ, tmp_path, stops=("train.py:38",)) as window:
        window.wait_for("dbg-attach: 2 of 3 ranks")
        broker.send_all(Change(rank=running[2]))
        window.prints(" 50%|##")
        window.wait_for(re.compile(r"^ 50%\|##\ndbg-attach: 3 of 3 ranks .* train.py:38 \(\d s\)$", re.MULTILINE))
        broker.send_all(Change(rank=FIVE))
        window.at("gpu013:5")
        window.send("\x1dd")
        window.wait_for("Enter ")


def test_closing_the_window_after_a_detach_ends_the_run(
    broker: FakeBroker, environ: dict[str, str], tmp_path: Path
) -> None:
    with Window(broker, environ, tmp_path) as window:
        window.at("gpu013:5")
        window.send("\x1dd")
        window.wait_for("Enter ")
        window.close_window()
        assert window.exit_status() == -signal.SIGHUP


def test_keys_for_the_job_are_sent_only_to_the_job(broker: FakeBroker, environ: dict[str, str], tmp_path: Path) -> None:
    takes = "trap 'echo INT' INT; trap 'echo QUIT' QUIT; echo begins; while :; do sleep 0.05; done"
    with Window(broker, environ, tmp_path, takes, attach=False) as window:
        window.wait_for("begins")
        for key, printed in ((b"\x03", "INT"), (b"\x1c", "QUIT")):
            window.send(key)
            window.wait_for(printed)
        window.prints("still shown\n")
        window.wait_for("still shown")
        window.signal(signal.SIGTERM)
        assert window.exit_status() == 128 + signal.SIGTERM
