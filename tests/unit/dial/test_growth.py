"""The kernel tells when a file has grown."""

from __future__ import annotations

import os
import select
from pathlib import Path

from dbg_dial.files import watch_growth


def is_told(watch: int) -> bool:
    if not select.select([watch], [], [], 0)[0]:
        return False
    os.read(watch, 4096)
    return True


def test_a_file_that_grows_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("begin")
    watch = watch_growth(str(path))
    assert watch is not None
    assert not is_told(watch)
    path.write_text("more")
    assert is_told(watch)
    os.close(watch)


def test_files_of_a_directory_are_told(tmp_path: Path) -> None:
    watch = watch_growth(str(tmp_path))
    assert watch is not None
    (tmp_path / "new").touch()
    assert is_told(watch)
    (tmp_path / "new").rename(tmp_path / "renamed")
    assert is_told(watch)
    os.close(watch)


def test_a_file_that_is_not_there_can_not_be_watched(tmp_path: Path) -> None:
    assert watch_growth(str(tmp_path / "missing")) is None
