"""What is made of py-spy's output, and of its absence; the real one is in test_exec."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from dbg_agent.guard import beside
from dbg_agent.guard.beside import NoStack, is_below, stack_of
from tests.conftest import Approved
from tests.unit.agent.guard.test_beside import write


@pytest.mark.parametrize(
    ("script", "scope"),
    [
        ("echo 'Permission Denied: Try again'; exit 1", ""),
        ("echo 'Operation not permitted (os error 1)'; exit 1", "1"),
        ("echo 'Permission Denied'; exit 1", "3"),
        ("echo 'Error: no python'; echo more; exit 1", ""),
        ("sleep 1000", ""),
    ],
)
async def test_each_lack_is_a_sentence(
    approved: Approved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, scope: str
) -> None:
    (tmp_path / "scope").write_text(f"{scope}\n")
    monkeypatch.setattr(beside, "YAMA_SCOPE", str(tmp_path / "scope"))
    write(tmp_path, script)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with pytest.raises(NoStack) as caught:
        await stack_of(7, environ, 0.5 if "sleep" in script else 20.0, (), native=True)
    approved(str(caught.value))


def test_only_processes_that_the_rank_has_started_are_below_it() -> None:
    child = subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        assert is_below(child.pid, os.getpid())
        assert is_below(grandchild, os.getpid())
        assert not is_below(os.getpid(), os.getpid())
        assert not is_below(os.getppid(), os.getpid())
        assert not is_below(2**22, os.getpid())
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
