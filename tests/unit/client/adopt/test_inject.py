"""The way of Python 3.14, by a stand-in for its call: no such Python is on the machines that run these tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dbg_client.adopt.inject import can_remote_exec, run_remotely
from dbg_client.adopt.payload import Answer, Outcome

ADOPTED = Answer(outcome=Outcome.ADOPTED)


def test_only_the_same_version_runs_a_file_for_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "remote_exec", lambda pid, script: None, raising=False)
    assert can_remote_exec(sys.version_info[:2])
    assert not can_remote_exec((2, 7))
    assert not can_remote_exec(None)


def test_the_file_has_the_code_and_goes_once_it_was_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def remote_exec(pid: int, script: str) -> None:
        asked.append((pid, Path(script).read_text()))

    monkeypatch.setattr(sys, "remote_exec", remote_exec, raising=False)
    assert run_remotely(7, str(tmp_path), "pass", lambda seconds: ADOPTED) is ADOPTED
    assert asked == [(7, "pass")]
    assert not list(tmp_path.iterdir())


def test_the_file_stays_while_the_main_thread_may_still_come_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "remote_exec", lambda pid, script: None, raising=False)
    assert run_remotely(7, str(tmp_path), "pass", lambda seconds: None) is None
    assert [path.name for path in tmp_path.iterdir()] == ["adopt.py"]


@pytest.mark.parametrize("error", [PermissionError, RuntimeError])
def test_where_it_is_forbidden_the_other_way_is_left(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remote_exec(pid: int, script: str) -> None:
        raise error

    monkeypatch.setattr(sys, "remote_exec", remote_exec, raising=False)
    assert run_remotely(7, str(tmp_path), "pass", lambda seconds: ADOPTED) is None
    assert not list(tmp_path.iterdir())
