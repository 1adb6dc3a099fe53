from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dbg_client.terminal import line_prompt as line_history
from dbg_client.terminal.line_prompt import history_path, open_history


def strings(environ: dict[str, str]) -> list[str]:
    return list(open_history(environ, lambda: True).load_history_strings())


def test_the_file_is_the_users_own(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    open_history(environ, lambda: True).append_string("p loss")

    path = tmp_path / ".local/state/dbg-broker/pdb_history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert strings(environ) == ["p loss"]


def test_it_lies_where_the_user_keeps_state(tmp_path: Path) -> None:
    assert history_path({"HOME": "/h", "XDG_STATE_HOME": "/s"}) == Path("/s/dbg-broker/pdb_history")
    assert history_path({"HOME": "/h", "XDG_STATE_HOME": "relative"}) == Path("/h/.local/state/dbg-broker/pdb_history")
    assert history_path({}) is None


def test_what_is_not_to_be_kept_is_not_kept(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    open_history(environ, lambda: False).append_string("secret")

    assert strings(environ) == []


def test_without_a_file_it_is_the_sessions_own(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    for environ in ({"HOME": str(blocked)}, {}):
        history = open_history(environ, lambda: True)
        history.append_string("p loss")
        assert history.get_strings() == ["p loss"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "dbg-broker/pdb_history"
    path.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    path.symlink_to(elsewhere)
    open_history({"XDG_STATE_HOME": str(tmp_path)}, lambda: True).append_string("p loss")

    assert not elsewhere.exists()


def test_its_older_half_goes_when_it_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"HOME": str(tmp_path)}
    history = open_history(environ, lambda: True)
    for number in range(100):
        history.append_string(f"p {number}")
    monkeypatch.setattr(line_history, "MAX_BYTES", 1000)

    kept = strings(environ)

    assert kept[0] == "p 99"
    assert 5 < len(kept) < 30
    assert kept == [f"p {99 - age}" for age in range(len(kept))]
    path = history_path(environ)
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
