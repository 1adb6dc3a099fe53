"""Lines of the format: valid JSON, safe to look at, and times that add up."""

from __future__ import annotations

import json
import sys
from types import FrameType

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.recording.asciicast import OUTPUT, EventLines, encode_header


def calls_to_encode(text: str) -> int:
    """Return how many calls of functions in Python it takes to make a line of a text."""
    lines, calls = EventLines(0.0), 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        lines.encode(0.0, OUTPUT, text)
    finally:
        sys.setprofile(None)
    return calls


def test_the_header_names_size_and_time_and_leaves_out_what_is_empty() -> None:
    line = encode_header(
        columns=100, rows=30, timestamp=1_760_000_000.9, title="job/gpu1:5", tags=("a",), about={"A": "b", "C": ""}
    )
    assert json.loads(line) == {
        "version": 3,
        "term": {"cols": 100, "rows": 30, "type": "xterm-256color"},
        "timestamp": 1_760_000_000,
        "title": "job/gpu1:5",
        "tags": ["a"],
        "env": {"A": "b"},
    }


@given(st.lists(st.floats(0, 0.01), min_size=1, max_size=300))
def test_the_intervals_add_up_to_the_time_that_has_passed(steps: list[float]) -> None:
    lines, at, total = EventLines(1000.0), 1000.0, 0.0
    for step in steps:
        at += step
        total += json.loads(lines.encode(at, OUTPUT, ""))[0]
    assert abs(total - (at - 1000.0)) < 0.0011


def test_a_time_that_goes_back_is_no_negative_interval() -> None:
    lines = EventLines(10.0)
    assert json.loads(lines.encode(9.0, OUTPUT, ""))[0] == 0
    assert json.loads(lines.encode(11.0, OUTPUT, ""))[0] == 1


@given(st.text())
def test_any_text_is_read_again_and_the_file_moves_no_terminal(text: str) -> None:
    line = EventLines(0.0).encode(0.0, OUTPUT, text)
    assert json.loads(line)[2] == text.encode("utf-8", "replace").decode()
    assert line.endswith(b"\n")
    shown = line[:-1].decode()
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or char in "\u202e\u2028" for char in shown)


def test_the_work_for_a_frame_does_not_grow_with_its_control_characters() -> None:
    whole_frame = 64 * 1024
    assert calls_to_encode("\x7f\x9b\u202e" * (whole_frame // 3)) == calls_to_encode("\x7f\x9b\u202e")
