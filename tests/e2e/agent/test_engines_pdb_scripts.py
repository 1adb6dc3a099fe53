"""CPython's own tests of pdb, on a rank without a broker: everything pdb has works as in this Python version."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.agent import pdb_scripts
from tests.unit.agent.pdb_programs import Ran, drive_program, run_alone
from tests.unit.agent.pdb_scripts import Event, conversations, differences, driven, programs

ROOT = Path(__file__).parents[3]

ENOUGH = {(3, 10): 35, (3, 11): 40, (3, 12): 40, (3, 13): 50}
"""Scripts that must be driven at least; Python 3.10 has fewer than 40 that a rank can run."""

pytestmark = pytest.mark.skipif(pdb_scripts.source_of_tests() is None, reason="this Python came without its own tests")


def rank_alone(tmp_path: Path, arguments: list[str], lines: list[str], env: Mapping[str, str]) -> Ran:
    """Run the rank's side by itself; return what was seen."""
    events = tmp_path / "events"
    events.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.unit.agent.pdb_script_rank", "--alone", *arguments]
    status, stderr = run_alone(command, lines, {**env, "PYTHONPATH": str(ROOT), "PDB_SCRIPT_EVENTS": str(events)})
    seen: list[Event] = [json.loads(line) for line in events.read_text().splitlines()]
    left = any(event[0] == "confirm" or (event[0] == "prompt" and event[2] is None) for event in seen)
    return Ran(seen, None if left and status == 0 else status, stderr)


@pytest.mark.parametrize("name", driven(conversations()))
def test_conversation(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = rank_alone(tmp_path, ["conversations", name], [], os.environ)
    assert ran.stderr == ""
    assert not differences(conversations()[name], ran.events)
    assert ran.status == 0


@pytest.mark.parametrize("name", driven(programs()))
def test_program(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(arguments: list[str], lines: list[str], env: Mapping[str, str]) -> Ran:
        return rank_alone(tmp_path, ["program", *arguments], lines, env)

    drive_program(name, run)


def test_every_script_is_driven_or_listed_and_none_is_listed_for_nothing() -> None:
    here = {*conversations(), *programs()}
    listed = {entry.name for entry in pdb_scripts.left_out() if entry.applies}
    assert listed <= here, "scripts are listed that this Python does not have"
    assert len(here - listed) >= ENOUGH.get(sys.version_info[:2], 50)
    assert all(entry.reason.endswith(".") for entry in pdb_scripts.left_out())
