"""Lines of the format: valid JSON, safe to look at, and times that add up."""

from __future__ import annotations

import json
import sys
from types import FrameType

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.recording.stop_cast import OUTPUT, encode_event, encode_header


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
