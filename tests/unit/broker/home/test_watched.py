"""Files that are read again once they have changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbg_broker.home.private_files import Watched
from dbg_command.home import write_whole


def watched(path: Path) -> Watched[str]:
    return Watched((path, path.with_name("other")), path.read_text)


def test_value_is_read_again_after_any_change_of_its_files(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_text("one")
    found = watched(path)
    assert (found.is_changed(), found.value) == (False, "one")
    write_whole(path, "two")
    assert (found.is_changed(), found.value) == (True, "two")
    path.write_text("three")
    assert (found.is_changed(), found.value) == (True, "three")
    other.touch()
    # It was read, and is the same.
    assert (found.is_changed(), found.value) == (False, "three")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        found.is_changed()


def test_replaced_file_of_the_same_size_and_time_is_a_change(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    found, before = watched(path), path.stat()
    write_whole(path, "two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (found.is_changed(), found.value) == (True, "two")


def test_failed_read_is_repeated_and_keeps_the_value(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    found = watched(path)
    path.write_bytes(b"\xff")
    for _ in range(2):
        with pytest.raises(UnicodeDecodeError):
            found.is_changed()
        assert found.value == "one"
    path.write_text("two")
    assert (found.is_changed(), found.value) == (True, "two")


def test_change_during_a_read_is_found_by_the_next_check(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")

    def read_late() -> str:
        text = path.read_text()
        if text == "one":
            write_whole(path, "two")
        return text

    found = Watched((path,), read_late)
    assert found.value == "one"
    assert (found.is_changed(), found.value) == (True, "two")
