"""The output and the ends of a test's children are noticed, and no child outlives its test."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Processes
from tests.support.time_unit import seconds


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Processes]:
    """Return processes that the test may end itself."""
    started = Processes(tmp_path / "logs")
    yield started
    started.end_all()


def test_end_without_the_expected_output_is_reported_at_once(own: Processes) -> None:
    child = own.start("mute", ["sh", "-c", "echo something else; exit 3"])
    with pytest.raises(AssertionError, match=r"mute ended with status 3 .*'ready'.*\n.*something else"):
        child.wait_for_output("ready", seconds(60))


def test_stubborn_children_their_groups_and_strays_are_ended(own: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.processes.GRACE", 0.2)
    stubborn = own.start("stubborn", ["sh", "-c", "trap '' TERM; echo $$; while :; do sleep 1; done"])
    stubborn.wait_for_output(r"\d+")
    # During exec a process has no environment that could identify it: the stray tells its number after that.
    parent = own.start("parent", ["sh", "-c", "setsid sh -c 'echo stray $$; kill -STOP $$' & wait"])
    stray = int(parent.wait_for_output(r"stray (\d+)").group(1))
    parent.kill()
    parent.wait()
    assert stray in own.strays()
    own.end_all()
    assert own.strays() == []
    assert _state_of(stray) in {"gone", "Z"}
    assert _state_of(stubborn.pid) == "gone"


def test_children_die_with_the_tests(own: Processes, tmp_path: Path) -> None:
    script = tmp_path / "killed_tests.py"
    script.write_text(
        "import pathlib, sys\n"
        "from tests.support.processes import Processes\n"
        "child = Processes(pathlib.Path(sys.argv[1])).start('orphan', ['sh', '-c', 'echo runs; exec sleep 1000'])\n"
        "child.wait_for_output('runs')\n"
        "print('pid', child.pid, flush=True)\n"
        "sys.stdin.read()\n"
        "import signal; signal.pause()\n"
    )
    root = Path(__file__).parents[3]
    tests = own.start(
        "tests", [sys.executable, str(script), str(tmp_path)], env=dict(os.environ) | {"PYTHONPATH": str(root)}
    )
    orphan = int(tests.wait_for_output(r"pid (\d+)").group(1))
    handle = os.pidfd_open(orphan)
    tests.kill()
    assert _readable(handle, seconds(10))
    os.close(handle)


def _readable(handle: int, timeout: float) -> bool:
    return bool(select.select([handle], [], [], timeout)[0])


def _state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "gone"
