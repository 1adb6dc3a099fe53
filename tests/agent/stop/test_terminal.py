"""Screen bytes are tagged, cut and counted; sizes are kept within what PuDB can draw."""

from __future__ import annotations

from dbg_agent.rank.console import Terminal
from dbg_wire.codec import Output, decode_data
from dbg_wire.limits import MAX_COLUMNS, MAX_DATA_BYTES, MAX_ROWS, MIN_COLUMNS, MIN_ROWS
from dbg_wire.messages import Audience, Sender


def audience(viewers: int, rows: int = 30, columns: int = 100) -> Audience:
    return Audience(viewers=viewers, generation=1, rows=rows, columns=columns, colors=256)


def outputs(frames: list[bytes]) -> list[Output]:
    decoded = [decode_data(frame, Sender.AGENT) for frame in frames]
    return [frame for frame in decoded if isinstance(frame, Output)]


def test_output_is_tagged_and_counted_also_while_nobody_looks() -> None:
    frames: list[bytes] = []
    terminal = Terminal(frames.append)
    terminal.begin(3)
    terminal.write(b"unseen")
    assert frames == []
    terminal.seat(audience(1))
    terminal.write(b"seen")
    assert outputs(frames) == [Output(3, 6, b"seen")]
    terminal.begin(4)
    terminal.write(b"x")
    assert outputs(frames)[-1] == Output(4, 0, b"x")


def test_a_long_write_is_cut_into_frames_without_a_gap() -> None:
    frames: list[bytes] = []
    terminal = Terminal(frames.append)
    terminal.begin(1)
    terminal.seat(audience(1))
    data = bytes(range(256)) * (MAX_DATA_BYTES // 128)
    terminal.write(data)
    got = outputs(frames)
    assert b"".join(frame.data for frame in got) == data
    assert [frame.offset for frame in got] == [0, MAX_DATA_BYTES]


def test_sizes_are_kept_within_bounds_and_only_changes_are_told() -> None:
    terminal = Terminal(lambda _frame: None)
    assert terminal.seat(audience(1, rows=30, columns=100))
    assert not terminal.seat(audience(2, rows=30, columns=100))
    assert terminal.seat(audience(1, rows=0, columns=0))
    assert (terminal.rows, terminal.columns) == (MIN_ROWS, MIN_COLUMNS)
    assert terminal.seat(audience(1, rows=10**6, columns=10**6))
    assert (terminal.rows, terminal.columns) == (MAX_ROWS, MAX_COLUMNS)
    assert not terminal.seat(audience(0, rows=30, columns=100)), "nobody's size does not count"
