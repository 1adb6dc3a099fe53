"""Which processes hold a lock of a file, have it open, or have the other end of a pipe."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from dbg_agent.evidence import descriptors
from dbg_agent.evidence.descriptors import lock_holders, looked_up, openers, other_ends
from tests.support.time_unit import seconds


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a search take as long as it does beside the processes of other tests."""
    monkeypatch.setattr(descriptors, "MAX_SECONDS", seconds(60))


def test_the_process_that_has_locked_a_file_is_found_and_none_that_has_it_open_alone(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as file:
        assert (lock_holders(str(path)), openers(str(path))) == ([], [os.getpid()])
        fcntl.flock(file, fcntl.LOCK_EX)
        assert lock_holders(str(path)) == [os.getpid()]
    assert (lock_holders(str(path)), openers(str(path))) == ([], [])


def test_the_holder_is_found_on_a_host_with_many_locks(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with path.open("w") as file, ExitStack() as others:
        fcntl.flock(file, fcntl.LOCK_EX)
        # The kernel gives a page of its list at a time, the newest locks first.
        for number in range(200):
            fcntl.flock(others.enter_context((tmp_path / str(number)).open("w")), fcntl.LOCK_EX)
        assert lock_holders(str(path)) == [os.getpid()]


def test_a_path_is_resolved_unless_its_file_system_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    path = str(tmp_path / "link" / "lock")
    assert looked_up(path).path == str(tmp_path / "data" / "lock")

    answers, asked = threading.Event(), []

    def hangs(path: str) -> str:
        asked.append(path)
        answers.wait()
        return "/elsewhere"

    monkeypatch.setattr(descriptors, "MAX_SECONDS", 0.01)
    monkeypatch.setattr(os.path, "realpath", hangs)
    assert [looked_up(path).path, looked_up("/other").path] == [path, "/other"]
    assert asked == [path]
    answers.set()


def test_the_other_end_of_a_pipe_is_the_one_of_the_other_direction() -> None:
    reading, writing = os.pipe()
    pipe = os.readlink(f"/proc/self/fd/{reading}")  # noqa: PTH115 - a link that names no path
    assert other_ends(pipe, reads=True) == other_ends(pipe, reads=False) == [os.getpid()]
    os.close(writing)
    assert (other_ends(pipe, reads=True), other_ends(pipe, reads=False)) == ([], [os.getpid()])
    os.close(reading)
