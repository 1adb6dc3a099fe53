from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dbg_broker.audit.writer import AUDIT_FILE, KEPT, append, audit_files


def test_lines_are_appended_to_a_file_for_us_alone(tmp_path: Path) -> None:
    append(tmp_path, b"one\n")
    append(tmp_path, b"two\n")
    path = tmp_path / AUDIT_FILE
    assert path.read_bytes() == b"one\ntwo\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert audit_files(tmp_path) == [path]


def test_a_large_file_becomes_an_earlier_one_and_the_oldest_goes(tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        append(tmp_path, f"{number}\n".encode(), max_bytes=2)
    found = audit_files(tmp_path)
    assert [path.read_text() for path in found] == [f"{number}\n" for number in range(3, KEPT + 3)]
    append(tmp_path, b"last\n")
    assert audit_files(tmp_path)[-1].read_text() == "last\n"


def test_a_disk_that_takes_a_part_leaves_no_part_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, b"one\n")
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if data == b"two\nthree\n":
            return write(descriptor, data[:6])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left") as raised:
            append(tmp_path, b"two\nthree\n")
    assert raised.value.strerror == "No space left on device"
    append(tmp_path, b"four\n")
    assert (tmp_path / AUDIT_FILE).read_bytes() == b"one\nfour\n"


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / AUDIT_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="Too many levels"):
        append(tmp_path, b"x\n")
    assert not (tmp_path / "elsewhere").exists()
