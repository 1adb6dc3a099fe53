"""CPython's own tests of pdb, on a rank without a broker: everything pdb has works as in this Python version."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.agent import pdb_scripts
from tests.unit.agent.pdb_scripts import MODULE, Event, conversations, differences, driven, programs, transcript

ROOT = Path(__file__).parents[3]
ENOUGH = 40
"""Scripts that must be driven at least."""

pytestmark = pytest.mark.skipif(pdb_scripts.source_of_tests() is None, reason="this Python came without its own tests")


class Rank:
    """A script that runs as a rank; it has what ``subprocess.Popen`` returns, as far as CPython's tests use it."""

    def __init__(self, events: Path, arguments: Sequence[str], env: Mapping[str, str]) -> None:
        self._path, self._env = events, {**env, "PYTHONPATH": str(ROOT), "PDB_SCRIPT_EVENTS": str(events)}
        self._command = [sys.executable, "-m", "tests.unit.agent.pdb_script_rank", *arguments]
        self.events: list[Event] = []
        self.returncode: int | None = None
        self.stdout = types.SimpleNamespace(close=lambda: None)

    def __enter__(self) -> Rank:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def communicate(self, data: bytes) -> tuple[bytes, bytes]:
        """Feed the program's debugger; return what was seen."""
        self._path.unlink(missing_ok=True)
        lines = data if data.endswith(b"\n") else data + b"\n"
        done = subprocess.run(self._command, input=lines, capture_output=True, env=self._env, timeout=30, check=False)
        self.events = [json.loads(line) for line in self._path.read_text().splitlines()]
        self.returncode = done.returncode
        return transcript(self.events, echo=False).encode(), done.stderr


@pytest.mark.parametrize("name", driven(conversations()))
def test_conversation(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rank = Rank(tmp_path / "events", ["conversation", name], os.environ)
    _, stderr = rank.communicate(b"")
    assert stderr == b""
    assert not differences(conversations()[name], rank.events)
    assert rank.returncode == 0
    assert all(event[0] != "confirm" and event[2:] != [None] for event in rank.events), "it ended before its end"


@pytest.mark.parametrize("name", driven(programs()))
def test_program(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    tests, ranks = importlib.import_module(MODULE), list[Rank]()

    def start(command: Sequence[str], *, env: Mapping[str, str] | None = None, **_streams: Any) -> Rank:
        arguments = [argument for argument in command[1:] if argument != "-u"]
        if arguments[:2] == ["-m", "pdb"]:
            arguments[:2] = ["--stop-first"]
        ranks.append(Rank(tmp_path / "events", ["program", *arguments], os.environ if env is None else env))
        return ranks[-1]

    real = tests.subprocess
    stand_in = types.SimpleNamespace(Popen=start, PIPE=real.PIPE, STDOUT=real.STDOUT)
    monkeypatch.setattr(tests, "subprocess", stand_in)
    case_name, method = name.split(".")
    getattr(tests, case_name)(method).debug()
    # Without a prompt the method tests nothing of a rank's pdb.
    assert ranks
    assert all(any(event[0] == "prompt" for event in rank.events) for rank in ranks)


def test_each_script_runs_or_is_listed_and_each_listed_script_exists() -> None:
    here = {*conversations(), *programs()}
    listed = {entry.name for entry in pdb_scripts.left_out() if entry.applies}
    assert listed <= here, "scripts are listed that this Python does not have"
    assert len(here - listed) >= ENOUGH
    assert all(entry.reason.endswith(".") for entry in pdb_scripts.left_out())
