"""Whether a process is alive, from /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_broker.ranks.liveness import is_dead, own_kernel


def test_own_kernel_names_boot_and_namespace() -> None:
    kernel = own_kernel()
    assert kernel is not None
    boot, _, namespace = kernel.partition("/")
    assert len(boot) == 36
    assert namespace == str(Path("/proc/self/ns/pid").readlink()).partition("[")[2].rstrip("]")


def test_kernel_that_hides_its_name_is_nobodys(tmp_path: Path) -> None:
    assert own_kernel(tmp_path) is None


def test_living_process_is_not_dead() -> None:
    assert not is_dead(os.getpid())


def test_process_is_dead_as_a_zombie_and_after() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(process.pid)
    assert is_dead(process.pid)


@pytest.mark.parametrize(("state", "dead"), [("R", False), ("S", False), ("D", False), ("T", False), ("Z", True)])
def test_name_of_a_process_does_not_hide_its_state(tmp_path: Path, state: str, dead: bool) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (evil) Z ) R) {state} 1 7 7\n")
    assert is_dead(7, tmp_path) is dead
