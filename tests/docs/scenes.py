"""The jobs in which the documentation's commands are typed: a broker and four ranks of a program in examples."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.console import Step
from tests.docs.pages import ROOT
from tests.support.broker import RunningBroker, Wrap, running_broker
from tests.support.launchers import mpirun, torchrun
from tests.support.processes import Child, Processes
from tests.support.ranks import attach, rank_environment, wait_until_states
from tests.support.sessions import DETACH
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

WORLD_SIZE = 4
HOST = "gpu013"
JOB = "4711.0"
LAUNCHED_JOB = "train-4711"
TORCH_SECONDS = 60.0
"""Seconds for launcher and ranks to import torch: 5 on two idle cores, several times that beside other tests."""

MEMORY = 1800 << 20
"""Bytes that the job of out_of_memory.py has: four ranks with torch take about half of it."""

LONG_SECONDS = 5.0
"""Seconds after which the sentences of `why` name the age of each wait."""

BETWEEN_LOOKS = 0.3
"""Seconds between two `why` as long as there is no hang: a look takes all ranks about as long."""

SHOWN_DIRECTORY = "/home/me"
"""What pages show in place of the directory of a test."""

ROWS, COLUMNS = 40, 100
WIDE = 200
"""Columns of a terminal in which no line of a conversation is folded."""


@dataclass(frozen=True, slots=True)
class Scene:
    """How the ranks of a scene are started, and when it has begun: what they have printed, or their states.

    ``ranks`` of them are started with ``environ``, and the shell into which commands are typed has ``at_prompt``. With
    a ``launch`` this command starts them instead; then each prints ``each_prints``, the worst verdict of `why` is
    ``hang``, and they share ``memory`` bytes.
    """

    folder: str
    python: tuple[str, ...] = ()
    ranks: int = WORLD_SIZE
    environ: Mapping[str, str] = field(default_factory=dict)
    at_prompt: Mapping[str, str] = field(default_factory=dict)
    prints: str | None = None
    states: Mapping[int, str] | None = None
    launch: tuple[str, ...] = ()
    each_prints: str = ""
    hang: str = ""
    memory: int | None = None


def _stopped(ranks: Sequence[int]) -> dict[int, str]:
    return dict.fromkeys(ranks, "stopped")


EVERYBODY = range(WORLD_SIZE)


def _hang(script: str, each_prints: str, hang: str, *, memory: int | None = None) -> Scene:
    launch = torchrun(WORLD_SIZE, "-m", "dbg_agent", script)
    return Scene("hangs", ranks=0, launch=tuple(launch), each_prints=each_prints, hang=hang, memory=memory)


def _mpi_hang(script: str, each_prints: str, hang: str) -> Scene:
    launch = mpirun(WORLD_SIZE, sys.executable, "-m", "dbg_agent", script)
    return Scene("hangs", ranks=0, launch=tuple(launch), each_prints=each_prints, hang=hang)


SCENES = {
    "hang": Scene("tour/hang", ("-m", "dbg_agent"), prints=r"step 3$"),
    "nan": Scene("tour/nan", states=_stopped(EVERYBODY)),
    "weights": Scene("tour/weights", states=_stopped(EVERYBODY)),
    "crash": Scene(
        "tour/crash", ("-m", "dbg_agent", "--post-mortem"), states={0: "held", 1: "held", 2: "stopped", 3: "held"}
    ),
    "hold": Scene("tour/hold", states={0: "held", 1: "held", 2: "held", 3: "stopped"}),
    "stop-at": Scene(
        "tour/hang",
        environ={"DBG_AUTOSTART": "test", "DBG_STOP_AT": "train.py:49, step == 2"},
        states=_stopped(EVERYBODY),
    ),
    "leaves-dumps": _hang("leaves_dumps.py", "dumped", "missing"),
    "missing-rank": _hang("missing_rank.py", "step 3", "missing"),
    "different-order": _hang("different_order.py", "step 2", "order"),
    "different-groups": _hang("different_groups.py", "step 3", "order"),
    "different-shape": _hang("different_shape.py", "step 0", "mismatch"),
    "deadlocked-threads": _hang("deadlocked_threads.py", "step 3", "missing"),
    "stuck-in-c": _hang("stuck_in_c.py", "step 3", "missing"),
    "out-of-memory": _hang("out_of_memory.py", "step 0", "dead", memory=MEMORY),
    "partner": _hang("partner.py", "micro-batch 0", "partner"),
    "mpi-missing": _mpi_hang("mpi_missing.py", "step 3", "missing"),
    "run": Scene("tour/crash", ranks=0, at_prompt={"RANK": "0", "WORLD_SIZE": "1", "DBG_HOST": HOST}),
}


class Stage:
    """A scene that has begun; its processes end with ``processes``."""

    def __init__(self, processes: Processes, scene: Scene, folder: Path, wrap: Wrap = list) -> None:
        self.folder = folder / "work"
        self.home = folder / "dbg"
        self.home.mkdir(mode=0o700)
        shutil.copytree(ROOT / "examples" / scene.folder, self.folder)
        self._processes = processes
        self._at_prompt = scene.at_prompt
        self._name = uuid.uuid4().hex
        self._broker: RunningBroker = running_broker(processes, self.home)
        self._ranks = [self._start(scene, rank) for rank in range(scene.ranks)]
        self.job = self._launch(scene, wrap) if scene.launch else None
        if scene.states is not None:
            wait_until_states(self.home, scene.states, seconds(40))
        if scene.prints is not None:
            for rank in self._ranks:
                rank.wait_for_output(scene.prints, seconds(40))

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the shell in which the commands are typed."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # A reader of the page is at a terminal; under CI no crash is kept without a lease.
        variables = {"PATH": path, "CI": "", "DBG_HOME": str(self.home), "PWD": str(self.folder), **self._at_prompt}
        return {**os.environ, **variables}

    def _launch(self, scene: Scene, wrap: Wrap) -> Child:
        """Start the ranks with their launcher, and return once `why` finds what is to be found."""
        variables = {"DBG_HOST": HOST, "DBG_JOB": LAUNCHED_JOB, "OMP_NUM_THREADS": "1", **scene.environ}
        job = self._processes.start("job", wrap(scene.launch), env={**self.variables, **variables}, cwd=self.folder)
        for rank in range(WORLD_SIZE):
            # Ranks of torchrun write the end of a line apart, and so perhaps behind the line of another rank.
            job.wait_for_output(f"rank {rank}: {scene.each_prints}", seconds(TORCH_SECONDS))
        # What a rank prints comes before its hang, and on a busy machine long before.
        self.wait_for_hang(scene.hang)
        return job

    def wait_for_hang(self, kind: str) -> None:
        """Return once the worst verdict of `why` is of this kind, and has been true for so long that all is told."""
        while (left := self._seconds_left(kind)) > 0:
            # A wait grows old without any occurrence, and each `why` has all ranks look at themselves.
            time.sleep(left)

    def _seconds_left(self, kind: str) -> float:
        variables = attach(self.home, "why", "--json").stdout
        worst = json.loads(variables)["verdicts"][0] if variables else {"kind": None, "cause": None}
        # Of a rank that is stuck before it has connected its guard tells, some seconds later.
        if worst["kind"] != kind or worst["cause"] == "absent":
            return BETWEEN_LOOKS
        return 0.0 if worst["age"] is None else LONG_SECONDS - float(worst["age"])

    def _start(self, scene: Scene, rank: int) -> Child:
        variables = {
            **self.variables,
            **rank_environment(rank, rank, WORLD_SIZE, WORLD_SIZE, 29500),
            "DBG_HOST": HOST,
            "DBG_JOB": JOB,
            "TOUR": self._name,
            **scene.environ,
        }
        command = [sys.executable, *scene.python, "train.py"]
        return self._processes.start(f"rank{rank}", command, env=variables, cwd=self.folder)

    def play(self, step: Step) -> list[str]:
        """Type a command, and return the lines that it prints."""
        text = self._converse(step) if step.typed else self._run(step)
        return text.replace(str(self.folder), SHOWN_DIRECTORY).splitlines()

    def _run(self, step: Step) -> str:
        return subprocess.run(
            ["bash", "-c", step.command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd=self.folder,
            env=self._processes.marked(self.variables),
            timeout=seconds(30),
        ).stdout

    def _converse(self, step: Step) -> str:
        """Type the lines of a conversation with pdb into a real terminal; return what is above its last prompt.

        The conversation may end the command.
        """
        command = ["bash", "-c", f"exec {step.command}"]
        environ = {**self.variables, "HOME": str(self.home)}
        with self.open(command, environ, cols=WIDE) as terminal:
            for count, line in enumerate(step.typed):
                terminal.wait_for(_asks(count))
                terminal.send(f"{line}\r")
            ask_again = _asks(len(step.typed))
            terminal.wait_for(lambda seen: seen.ended or ask_again(seen))
            rows = terminal.screen
            if terminal.ended:
                return "\n".join(rows).rstrip()
            terminal.send(DETACH)
            terminal.exit_status()
        return "\n".join(rows[: _prompts(rows)[-1]])

    def open(
        self, command: Sequence[str], environ: Mapping[str, str] | None = None, rows: int = ROWS, cols: int = COLUMNS
    ) -> Terminal:
        """Open a terminal in the directory of the job."""
        return Terminal(
            ["env", "-C", str(self.folder), *command],
            rows=rows,
            cols=cols,
            env=self._processes.marked(self.variables if environ is None else environ),
        )


def _prompts(rows: Sequence[str]) -> list[int]:
    return [number for number, row in enumerate(rows) if row.startswith("(Pdb)")]


def _asks(answered: int) -> Callable[[Terminal], bool]:
    """Return what tells that pdb asks for another line, after so many."""

    def shows_prompt(terminal: Terminal) -> bool:
        prompts = _prompts(terminal.screen)
        return len(prompts) > answered and terminal.screen[prompts[-1]] == "(Pdb)"

    return shows_prompt
