"""Lines of the format: valid JSON, safe to look at, and times that add up."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.recording.stop_cast import (
    OUTPUT,
    Happening,
    StopCast,
    encode_event,
    encode_header,
)
from dbg_broker.recording.writer import RecordingDirectory, open_directory
from dbg_wire.errors import BadInput
from tests.conftest import Approved
from tests.unit.broker.recording.events import ABOUT, output, seen, shown


def test_the_header_names_size_and_time_and_leaves_out_what_is_empty() -> None:
    line = encode_header(columns=100, rows=30, timestamp=1_760_000_000.9, title="job/gpu1:5", about={"A": "b", "C": ""})
    assert json.loads(line) == {
        "version": 2,
        "width": 100,
        "height": 30,
        "timestamp": 1_760_000_000,
        "title": "job/gpu1:5",
        "env": {"TERM": "xterm-256color", "A": "b"},
    }


@given(st.text())
def test_any_text_is_read_again_and_the_file_moves_no_terminal(text: str) -> None:
    line = encode_event(0.0, OUTPUT, text)
    assert json.loads(line)[2] == text.encode("utf-8", "replace").decode()
    assert line.endswith(b"\n")
    shown = line[:-1].decode()
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or char in "\u202e\u2028" for char in shown)


class TestOpening:
    def test_it_is_made_for_our_user_alone(self, tmp_path: Path) -> None:
        path = open_directory(str(tmp_path / "a" / "casts"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert list(path.iterdir()) == []

    def test_others_may_not_write_to_it(self, approved: Approved, tmp_path: Path) -> None:
        tmp_path.chmod(0o777)
        with pytest.raises(BadInput) as caught:
            open_directory(str(tmp_path))
        approved(str(caught.value))

    def test_nothing_is_written_through_a_link_before_it_is_looked_at(self, approved: Approved, tmp_path: Path) -> None:
        (tmp_path / "casts").mkdir(mode=0o700)
        (tmp_path / "casts").chmod(0o777)
        (tmp_path / "casts" / f".{os.getpid()}").symlink_to(tmp_path / "victim")
        with pytest.raises(BadInput) as caught:
            open_directory(str(tmp_path / "casts"))
        approved(str(caught.value))
        assert sorted(file.name for file in tmp_path.iterdir()) == ["casts"]
        assert [file.name for file in (tmp_path / "casts").iterdir()] == [f".{os.getpid()}"]

    def test_a_link_there_already_is_neither_followed_nor_removed(self, tmp_path: Path) -> None:
        (tmp_path / "casts").mkdir(mode=0o700)
        link = tmp_path / "casts" / f".{os.getpid()}"
        link.symlink_to(tmp_path / "victim")
        open_directory(str(tmp_path / "casts"))
        assert link.is_symlink()
        assert not (tmp_path / "victim").exists()


def made(directory: RecordingDirectory, size: int, job: str = "job") -> Path:
    path, descriptor = directory.create(replace(ABOUT, job=job))
    os.write(descriptor, b"x" * size)
    os.close(descriptor)
    directory.grew(size)
    directory.ended(path, size)
    return path


class TestFiles:
    def test_they_are_of_our_user_alone_and_none_replaces_another(self, tmp_path: Path) -> None:
        directory = RecordingDirectory(tmp_path, 10**6)
        first, second = made(directory, 1), made(directory, 1)
        assert first.name == "gpu013-5-stop3-20251009T085320Z.cast"
        assert second.name == "gpu013-5-stop3-20251009T085320Z-2.cast"
        assert stat.S_IMODE(first.stat().st_mode) == 0o600
        assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700

    def test_no_link_is_followed(self, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (tmp_path / "casts").mkdir()
        (tmp_path / "casts" / "job").symlink_to(elsewhere)
        with pytest.raises(OSError, match=r"Not a directory|symbolic"):
            RecordingDirectory(tmp_path / "casts", 10**6).create(replace(ABOUT, job="job"))
        assert list(elsewhere.iterdir()) == []

    def test_the_oldest_are_removed_and_none_that_is_still_written(self, tmp_path: Path) -> None:
        directory = RecordingDirectory(tmp_path, 100)
        open_one, descriptor = directory.create(replace(ABOUT, job="open"))
        os.close(descriptor)
        directory.grew(60)
        first, second = made(directory, 30, "first"), made(directory, 30, "second")
        assert not first.exists()
        assert not first.parent.exists()
        assert second.exists()
        assert open_one.exists()
        assert directory.removed == 1


def lines_of(*happenings: Happening) -> bytes:
    cast = StopCast(ABOUT)
    return b"".join(map(cast.lines_of, happenings))


class TestScreen:
    def test_what_acts_on_a_terminal_is_left_out_even_in_pieces(self) -> None:
        asked = b"loss\x1b[6n\x1b]52;c;cm0gLXJm\x07\x1b[1;31m0.25"
        frames = [shown(0.0, asked[at : at + 1], at) for at in range(len(asked))]
        assert output(lines_of(seen(0.0), *frames)) == "loss\x1b[1;31m0.25"
