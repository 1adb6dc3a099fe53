"""Lines of the format: valid JSON, safe to look at, and times that add up."""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.recording.stop_cast import (
    MAX_SESSIONS,
    OUTPUT,
    Happening,
    Marker,
    Missing,
    StopCast,
    Typed,
    encode_event,
    encode_header,
)
from dbg_broker.recording.writer import MAX_SAME, RecordingDirectory, file_stem, open_directory, safe_name
from dbg_wire.errors import BadInput
from dbg_wire.sequences import QueryFilter
from tests.conftest import Approved
from tests.unit.broker.home.test_private_files import OTHER, needs_root
from tests.unit.broker.recording.events import ABOUT, events, marks, output, prompt, seen, shown


def calls_to_encode(text: str) -> int:
    """Return how many calls of functions in Python it takes to make a line of a text."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        encode_event(0.0, OUTPUT, text)
    finally:
        sys.setprofile(None)
    return calls


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


def test_the_work_for_a_frame_does_not_grow_with_its_control_characters() -> None:
    whole_frame = 64 * 1024
    assert calls_to_encode("\x7f\x9b\u202e" * (whole_frame // 3)) == calls_to_encode("\x7f\x9b\u202e")


class TestNames:
    def test_a_name_says_host_rank_stop_and_time(self) -> None:
        assert file_stem(ABOUT) == "gpu013-5-stop3-20251009T085320Z"
        assert file_stem(replace(ABOUT, address="gpu013:5.1")).startswith("gpu013-5.1-stop3-")
        assert file_stem(replace(ABOUT, address="login1:?2")).startswith("login1-2-stop3-")

    @given(st.text())
    def test_no_name_leads_elsewhere(self, text: str) -> None:
        name = safe_name(text)
        assert name
        assert name[0] not in ".-"
        assert not {*name} - {*"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"}
        assert len(name) <= 80


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

    @needs_root
    @pytest.mark.parametrize("name", ["casts", "link"])
    def test_what_lies_below_another_users_directory_is_refused(
        self, approved: Approved, tmp_path: Path, name: str
    ) -> None:
        theirs, mine = tmp_path / "theirs", tmp_path / "mine"
        theirs.mkdir()
        mine.mkdir()
        (mine / "link").symlink_to(theirs / "casts")
        os.chown(theirs, OTHER, -1)
        with pytest.raises(BadInput) as caught:
            open_directory(str((theirs if name == "casts" else mine) / name))
        approved(str(caught.value))
        assert list(theirs.iterdir()) == []

    def test_what_is_no_directory_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(BadInput, match="can't be written"):
            open_directory(str(tmp_path / "file"))


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

    def test_a_name_is_not_tried_for_ever(self, tmp_path: Path) -> None:
        directory = RecordingDirectory(tmp_path, 10**6)
        for _ in range(MAX_SAME):
            made(directory, 0)
        with pytest.raises(FileExistsError):
            directory.create(replace(ABOUT, job="job"))

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

    def test_those_of_an_earlier_broker_count_the_oldest_first(self, tmp_path: Path) -> None:
        before = RecordingDirectory(tmp_path, 10**6)
        old, new = made(before, 40, "b"), made(before, 40, "a")
        os.utime(old, (1, 1))
        other = tmp_path / "notes.txt"
        other.write_text("mine")
        latest = made(RecordingDirectory(tmp_path, 100), 40, "c")
        assert [path.exists() for path in (old, new, latest, other)] == [False, True, True, True]


def lines_of(*happenings: Happening) -> bytes:
    cast = StopCast(ABOUT)
    return b"".join(map(cast.lines_of, happenings))


class TestAnyDebugger:
    def test_the_header_says_which_stop_it_is(self) -> None:
        cast = StopCast(ABOUT)
        cast.lines_of(seen(0.0, rows=30, columns=100))
        header = json.loads(cast.header())
        assert (header["version"], header["width"], header["height"]) == (2, 100, 30)
        assert header["title"] == "4711.0/gpu013:5, stop 3, 2025-10-09 08:53:20 UTC"
        assert header["env"]["STOP_ADDRESS"] == "gpu013:5"
        assert header["env"]["STOP_REASON"] == "breakpoint"

    def test_another_size_is_told_once(self) -> None:
        lines = lines_of(seen(0.0), shown(1.0, b"a"), seen(2.0, rows=30, columns=90), seen(3.0, rows=30, columns=90))
        assert [event[1:] for event in events(lines)] == [("o", "a"), ("r", "90x30")]

    def test_who_types_and_the_end_are_markers(self) -> None:
        lines = lines_of(
            seen(0.0), Marker(0.0, "alice\x1b[2J types"), shown(0.0, b"a"), Marker(1.0, "the process has ended with 3")
        )
        assert marks(lines) == ["alice\\x1b[2J types", "the process has ended with 3"]

    def test_keys_are_input(self) -> None:
        assert events(lines_of(seen(0.0), Typed(0.0, "ö".encode()[:1]), Typed(0.0, "ö".encode()[1:])))[0][2] == "ö"

    def test_times_count_from_what_happened_first(self) -> None:
        lines = lines_of(seen(1000.0), shown(1000.25, b"a"), shown(1004.5, b"b"))
        assert [event[0] for event in events(lines)] == [0.25, 4.5]

    def test_a_gap_is_named(self) -> None:
        assert marks(lines_of(seen(0.0), Missing(1.0, 4096))) == ["4096 bytes of output are missing here"]

    def test_a_frame_that_no_rank_sends_is_refused_by_the_codec_alone(self) -> None:
        cast = StopCast(ABOUT)
        for session in range(100):
            cast.lines_of(shown(0.0, b"a", session=session))
        assert len(cast._expected) <= MAX_SESSIONS


class TestScreen:
    @given(st.text(min_size=1), st.data())
    def test_output_cut_anywhere_is_the_same_text(self, text: str, data: st.DataObject) -> None:
        whole = text.encode("utf-8", "replace")
        cut = data.draw(st.integers(0, len(whole)))
        lines = lines_of(seen(0.0), shown(0.0, whole[:cut]), shown(0.0, whole[cut:], cut))
        assert output(lines) == QueryFilter().feed(whole).decode()

    def test_what_acts_on_a_terminal_is_left_out_even_in_pieces(self) -> None:
        asked = b"loss\x1b[6n\x1b]52;c;cm0gLXJm\x07\x1b[1;31m0.25"
        frames = [shown(0.0, asked[at : at + 1], at) for at in range(len(asked))]
        assert output(lines_of(seen(0.0), *frames)) == "loss\x1b[1;31m0.25"

    def test_a_prompt_acts_on_no_terminal(self) -> None:
        lines = lines_of(
            seen(0.0, "pdb"), shown(0.0, b"a\n"), seen(0.0, "pdb", prompt=prompt(1, 2, "\x1b]0;t\x07(Pdb) "))
        )
        assert output(lines) == "a\r\n(Pdb) "

    def test_half_a_sequence_before_a_gap_spoils_nothing_after_it(self) -> None:
        lines = lines_of(seen(0.0), shown(0.0, b"a\x1b]0;"), Missing(0.0, 100), shown(0.0, b"b", 200))
        assert output(lines) == "ab"

    def test_what_has_no_place_in_the_stream_is_drawn_all_the_same(self) -> None:
        """A repaint follows; the offsets of a screen say nothing of its content."""
        assert output(lines_of(seen(0.0), shown(0.0, b"a", 5), shown(0.0, b"b", 0), shown(0.0, b"c", 90))) == "abc"


class TestLog:
    def test_prompts_stand_where_they_stood_and_lines_are_there_once(self) -> None:
        lines = lines_of(
            seen(0.0, "pdb"),
            shown(1.0, b"> a.py(7)\n"),
            seen(2.0, "pdb", prompt=prompt(1, 10)),
            seen(3.0, "pdb"),
            shown(3.0, b"(Pdb) p 1\n1\n", 10),
            seen(4.0, "pdb", prompt=prompt(2, 22)),
        )
        assert output(lines) == "> a.py(7)\r\n(Pdb) p 1\r\n1\r\n(Pdb) "
        assert [data for _, _, data in events(lines)] == ["> a.py(7)\r\n", "(Pdb) ", "p 1\r\n1\r\n", "(Pdb) "]

    def test_a_prompt_that_comes_before_the_output_waits_for_it(self) -> None:
        lines = lines_of(
            seen(0.0, "pdb"), shown(0.0, b"a"), seen(1.0, "pdb", prompt=prompt(1, 2)), shown(1.0, b"\n", 1)
        )
        assert output(lines) == "a\r\n(Pdb) "

    def test_what_is_printed_over_a_prompt_begins_a_line(self) -> None:
        lines = lines_of(
            seen(0.0, "pdb"), shown(0.0, b"a\n"), seen(0.0, "pdb", prompt=prompt(1, 2)), shown(1.0, b"thread\n", 2)
        )
        assert output(lines) == "a\r\n(Pdb) \r\nthread\r\n"

    def test_a_log_that_is_sent_again_for_another_terminal_is_there_once(self) -> None:
        lines = lines_of(seen(0.0, "pdb"), shown(0.0, b"abc"), shown(1.0, b"abcdef"), shown(2.0, b"ef", 4))
        assert output(lines) == "abcdef"

    def test_what_was_shown_to_nobody_is_named(self) -> None:
        lines = lines_of(seen(0.0, "pdb"), shown(0.0, b"abc"), shown(1.0, b"xyz", 1003))
        assert marks(lines) == ["1000 bytes of output are missing here"]
        assert output(lines) == "abcxyz"

    def test_lines_are_not_written_over_the_screen_of_another_debugger(self) -> None:
        lines = lines_of(seen(0.0), shown(0.0, b"screen"), seen(1.0, "pdb"), shown(1.0, b"line\n", session=2))
        assert marks(lines) == ["the debugger is pdb now"]
        assert output(lines).startswith("screen\x0f\x1b(B\x1b[0m\x1b[2J\x1b[H")
        assert output(lines).endswith("line\r\n")

    @given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=30))
    def test_in_any_order_no_byte_is_there_twice(self, pieces: list[tuple[int, int]]) -> None:
        log = bytes(33 + number for number in range(60))
        lines = lines_of(seen(0.0, "pdb"), *(shown(0.0, log[at : at + size], at) for at, size in pieces))
        said = output(lines)
        assert len(set(said)) == len(said)
        assert sorted(said) == list(said)
