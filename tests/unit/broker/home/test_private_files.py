"""A home is taken only where nobody else can put another directory in its place."""

from __future__ import annotations

import grp
import os
import pwd
import re
from pathlib import Path

import pytest

from dbg_broker.home import private_files as home_path
from dbg_broker.home.private_files import check_way, open_home
from dbg_wire.errors import BadSecretFile
from tests.conftest import Approved

OTHER = 54321
"""A user id that no host of the tests has."""


def directory(path: Path, mode: int, uid: int | None = None) -> Path:
    path.mkdir(parents=True)
    path.chmod(mode)
    if uid is not None:
        os.chown(path, uid, uid)
    return path


@pytest.fixture
def open_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that counts as open to others, although pytest makes its own closed to them."""
    monkeypatch.setattr(home_path, "is_closed", lambda mode: False)
    return tmp_path


@pytest.mark.parametrize(("mode", "is_refused"), [(0o777, True), (0o757, True), (0o1777, False), (0o755, False)])
def test_a_directory_that_all_can_write_must_be_sticky(
    approved: Approved, open_tmp: Path, mode: int, is_refused: bool
) -> None:
    above = directory(open_tmp / "above", mode)
    if is_refused:
        with pytest.raises(BadSecretFile) as caught:
            check_way(above / "home")
        approved(str(caught.value))
    else:
        check_way(above / "home")


@pytest.mark.parametrize(("value", "is_taken"), [("1", True), ("0", False), ("", False), (None, False)])
def test_open_volume_is_accepted_for_a_sole_user(
    open_tmp: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, is_taken: bool
) -> None:
    volume = directory(open_tmp / "volume", 0o2777)
    if value is not None:
        monkeypatch.setenv("DBG_SOLE_USER", value)
    if is_taken:
        assert open_home(str(volume / "home")).stat().st_mode & 0o7777 == 0o700
        (volume / "home").chmod(0o750)
    # The home itself has to be closed everywhere.
    with pytest.raises(BadSecretFile, match=re.escape(str(volume / "home" if is_taken else volume))):
        open_home(str(volume / "home"))


def test_directory_below_a_closed_one_is_accepted(tmp_path: Path) -> None:
    closed = directory(tmp_path / "closed", 0o700)
    check_way(directory(closed / "below", 0o777) / "home")


def test_link_out_of_a_closed_directory_is_checked(tmp_path: Path, open_tmp: Path) -> None:
    outside = directory(open_tmp / "outside", 0o777)
    inside = directory(open_tmp / "inside", 0o700)
    (inside / "link").symlink_to(outside / "home")
    (inside / "up").symlink_to("../outside")
    for home in (inside / "link", inside / "up" / "home", inside / ".." / "outside" / "home"):
        with pytest.raises(BadSecretFile, match=f"is below {outside}, "):
            check_way(home)


def test_a_link_that_others_can_change_is_refused(open_tmp: Path) -> None:
    theirs = directory(open_tmp / "theirs", 0o777)
    (theirs / "link").symlink_to(directory(open_tmp / "mine", 0o700))
    with pytest.raises(BadSecretFile, match=f"is below {theirs}, "):
        check_way(theirs / "link" / "home")


def test_link_loop_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"):
        check_way(tmp_path / "loop" / "home")
    with pytest.raises(BadSecretFile, match="loop/home can't be made"):
        open_home(str(tmp_path / "loop" / "home"))


@pytest.mark.parametrize(
    ("name", "members", "is_refused"),
    [("me", [], False), ("me", ["me"], False), ("lab", [], True), ("me", ["x"], True)],
)
def test_private_group_of_the_user_is_accepted(
    approved: Approved, open_tmp: Path, monkeypatch: pytest.MonkeyPatch, name: str, members: list[str], is_refused: bool
) -> None:
    above = directory(open_tmp / "above", 0o775)
    number = above.stat().st_gid
    user = pwd.struct_passwd(("me", "x", os.geteuid(), number, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((name, "x", gid, members)))
    if is_refused:
        with pytest.raises(BadSecretFile) as caught:
            check_way(above / "home")
        approved(str(caught.value))
    else:
        check_way(above / "home")
