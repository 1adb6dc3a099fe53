"""The methods of CPython's ``test_pdb``, whose programs run as ranks: a stand-in takes the place of each process."""

from __future__ import annotations

import importlib
import os
import subprocess
import types
import unittest
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.unit.agent.pdb_scripts import MODULE, Event, transcript


@dataclass(frozen=True)
class Ran:
    """How a program ended as a rank, and what was seen of it; ``status`` is None if the terminal ended the rank."""

    events: list[Event]
    status: int | None
    stderr: str


Run = Callable[[list[str], list[str], Mapping[str, str]], Ran]
"""Run a program as a rank: its arguments for ``pdb_script_rank program``, the lines fed, its environment."""


def drive_program(name: str, run: Run) -> None:
    """Run one method, ``class.method``, in the current directory; raise what its own assertions raise.

    It raises AssertionError also if no prompt came, since the method then tests nothing of a rank's pdb.
    """
    tests = importlib.import_module(MODULE)
    case_name, method = name.split(".")
    ran: list[Ran] = []

    def start(command: Sequence[str], *, env: Mapping[str, str] | None = None, **_streams: Any) -> _Process:
        return _Process(list(command), os.environ if env is None else env, run, ran)

    real = tests.subprocess
    stand_in = types.SimpleNamespace(Popen=start, PIPE=real.PIPE, STDOUT=real.STDOUT)
    setattr(tests, "subprocess", stand_in)  # noqa: B010 - a module, whose attributes no checker knows
    try:
        case: unittest.TestCase = getattr(tests, case_name)(method)
        case.debug()
    finally:
        setattr(tests, "subprocess", real)  # noqa: B010
    if not ran or not all(any(event[0] == "prompt" for event in program.events) for program in ran):
        raise AssertionError(f"{name} ran no program in which pdb asked for anything")


class _Process:
    """What ``subprocess.Popen`` returns, as far as these methods use it."""

    def __init__(self, command: list[str], env: Mapping[str, str], run: Run, ran: list[Ran]) -> None:
        self._command = command
        self._env = env
        self._run = run
        self._ran = ran
        self.returncode: int | None = None
        self.stdout = types.SimpleNamespace(close=lambda: None)

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def communicate(self, data: bytes) -> tuple[bytes, bytes]:
        """Feed the program's debugger; return what was seen."""
        arguments = [argument for argument in self._command[1:] if argument != "-u"]
        if arguments[:2] == ["-m", "pdb"]:
            arguments[:2] = ["--stop-first"]
        ran = self._run(arguments, data.decode().splitlines(), self._env)
        self._ran.append(ran)
        # A terminal ends a rank by a signal, where stock pdb ends its process with status 0.
        self.returncode = 0 if ran.status is None else ran.status
        return transcript(ran.events, echo=False).encode(), ran.stderr.encode()


def run_alone(command: list[str], lines: list[str], env: Mapping[str, str]) -> tuple[int, str]:
    """Run the rank's side without a broker, with these lines on its stdin; return its status and stderr."""
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, env=dict(env), timeout=30, check=False
    )
    return done.returncode, done.stderr
