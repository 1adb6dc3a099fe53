"""A process that can't be adopted is shown all the same where py-spy is there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_client.adopt import adopt
from dbg_client.adopt.adopt import find_py_spy, stack_of
from dbg_client.adopt.errors import CantAdopt
from dbg_client.core.switchboard import switchboard_to
from tests.conftest import Approved


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A Python process that sleeps in a function."""
    program = "import time\ndef wait_for_shard():\n    print(flush=True)\n    time.sleep(1000)\nwait_for_shard()\n"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_the_functions_of_a_process_are_shown(sleeper: int) -> None:
    shown = stack_of(sleeper)
    assert shown is not None
    assert "wait_for_shard" in shown


def test_a_process_that_is_gone_is_said_so() -> None:
    shown = stack_of(2**22 + 1)
    assert shown
    assert "wait_for_shard" not in shown


def test_without_py_spy_nothing_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert find_py_spy() is None
    assert stack_of(os.getpid()) is None


def test_text_of_the_process_obeys_no_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "py-spy"
    fake.write_text("#!/bin/sh\nprintf 'evil\\033[2Jname\\n'\n")
    fake.chmod(0o755)
    monkeypatch.setattr(adopt, "find_py_spy", lambda: str(fake))
    assert stack_of(1) == "evil\\x1b[2Jname\n"


def test_adopt_shows_it_below_the_sentence(
    approved: Approved, monkeypatch: pytest.MonkeyPatch, sleeper: int, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(pid: int, _: object) -> None:
        raise CantAdopt(f"process {pid}", "can only be adopted with gdb", "install gdb", can_be_read=True)

    monkeypatch.setattr(adopt, "adopt_one", refuse)
    monkeypatch.setattr(adopt, "rank_variables", lambda *_: {})
    settings = type("Settings", (), {"broker": None})()
    # No broker is asked.
    adopting = adopt._Adopting(settings, switchboard_to(None, 1.0, {}))
    asyncio.run(adopting._adopt(sleeper))
    shown = capfd.readouterr()
    approved(shown.err)
    assert "wait_for_shard" in shown.out
