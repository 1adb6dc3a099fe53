"""The lines round a frame's current one are those of its file, with the breakpoints among them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from dbg_agent.stop.loaded_sources import source_message
from dbg_wire.limits import MAX_TEXT, SOURCE_LINES


def frame_in(path: Path, lines: list[str]) -> FrameType:
    """Return the frame of a module that has these lines before and behind the one that takes the frame."""
    path.write_text("\n".join([*lines, "frame = sys._getframe()", *lines]) + "\n")
    names = {"sys": sys}
    exec(compile(path.read_text(), str(path), "exec"), names)  # noqa: S102
    frame = names["frame"]
    assert isinstance(frame, FrameType)
    return frame


def test_the_lines_before_and_behind_are_told_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    frame = frame_in(path, [f"x = {number}" for number in range(2 * SOURCE_LINES)])
    source = source_message(frame, {})
    here = 2 * SOURCE_LINES + 1
    assert frame.f_code.co_filename == str(path)
    # The module has run to its end.
    assert source.where.line == frame.f_lineno == 2 * here - 1
    assert source.first == source.where.line - SOURCE_LINES
    assert source.lines[-1] == path.read_text().splitlines()[-1]
    assert len(source.lines) == SOURCE_LINES + 1


def test_breakpoints_outside_of_them_and_in_other_files_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    frame = frame_in(path, ["x = 1"] * (2 * SOURCE_LINES))
    last = frame.f_lineno
    breaks = {str(path): [last, 1, last - 1], str(tmp_path / "data.py"): [last]}
    assert source_message(frame, breaks).breakpoints == (last - 1, last)


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    frame = frame_in(tmp_path / "train.py", [f"x = '{'y' * 2 * MAX_TEXT}'"])
    assert max(map(len, source_message(frame, {}).lines)) == MAX_TEXT


def test_without_a_file_there_are_no_lines() -> None:
    names = {"sys": sys}
    exec(compile("frame = sys._getframe()", "<nowhere>", "exec"), names)  # noqa: S102
    frame = names["frame"]
    assert isinstance(frame, FrameType)
    source = source_message(frame, {})
    assert source.where.file == "<nowhere>"
    assert source.lines == ()
