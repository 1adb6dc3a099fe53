from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from dbg_dial.files import directory_in_memory, write_whole


def test_a_file_is_replaced_as_a_whole_and_its_mode_is_the_one_given(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o666)
    before = path.open(encoding="utf-8")

    write_whole(path, "né", lasting=True)

    with before:
        assert before.read() == "old"
    assert path.read_text(encoding="utf-8") == "né"
    assert path.stat().st_mode & 0o777 == 0o600
    write_whole(path, b"\xff", mode=0o664)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"\xff", 0o664)


def test_nothing_is_left_of_a_write_that_fails(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    with pytest.raises(OSError, match="directory"):
        write_whole(folder, "text")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "file", "\udcff")

    assert list(tmp_path.iterdir()) == [folder]


def test_a_name_may_be_as_long_as_the_file_system_lets_it(tmp_path: Path) -> None:
    write_whole(tmp_path / ("n" * 255), "text")
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]


def test_a_directory_in_memory_is_the_users_own(tmp_path: Path) -> None:
    own = tmp_path / "runtime"
    own.mkdir()
    folder = directory_in_memory({"XDG_RUNTIME_DIR": str(own)})
    assert folder.parent == own
    assert folder.stat().st_mode & 0o777 == 0o700
    elsewhere = directory_in_memory({"XDG_RUNTIME_DIR": "relative"})
    assert str(elsewhere).startswith(("/dev/shm/", tempfile.gettempdir()))
    elsewhere.rmdir()
