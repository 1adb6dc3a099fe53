"""Whether a process is alive, from /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_broker.ranks.liveness import is_dead


def test_living_process_is_not_dead() -> None:
    assert not is_dead(os.getpid())


def test_process_is_dead_as_a_zombie_and_after() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(process.pid)
    assert is_dead(process.pid)


def refuse(pid: int, number: int) -> None:
    raise PermissionError


def test_a_process_that_proc_hides_is_not_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_dead(os.getpid(), tmp_path)
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert is_dead(process.pid, tmp_path)
    assert is_dead(2**70, tmp_path)
    monkeypatch.setattr(os, "kill", refuse)  # as for the process of another user
    assert not is_dead(process.pid, tmp_path)


@pytest.mark.parametrize(("state", "dead"), [("R", False), ("S", False), ("D", False), ("T", False), ("Z", True)])
def test_name_of_a_process_does_not_hide_its_state(tmp_path: Path, state: str, dead: bool) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (evil) Z ) R) {state} 1 7 7\n")
    assert is_dead(7, tmp_path) is dead
