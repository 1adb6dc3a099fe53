"""Time, pauses, jumps and search, with a clock of the test's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.replay.player import AT_ONCE, SPEEDS, Draw, Player
from tests.client.replay.tapes import Line, screen, tape


def player(*events: Line) -> Player:
    return Player(tape(*events), 0.0)


THREE = ((1.0, "o", "a"), (1.0, "o", "b"), (1.0, "o", "c"))


def test_output_comes_at_its_time() -> None:
    one = player(*THREE)
    assert one.wait() == 1.0
    assert one.advance(0.9).data == ""
    assert one.wait() == pytest.approx(0.1)
    assert one.advance(1.0).data == "a"
    assert one.advance(3.5).data == "bc"
    assert one.is_over
    assert one.position == 3.0
    assert one.wait() is None


def test_a_pause_costs_no_time() -> None:
    one = player(*THREE)
    one.advance(1.5)
    one.pause(1.5)
    assert one.wait() is None
    assert one.advance(100.0).data == ""
    one.pause(200.0)
    assert one.wait() == pytest.approx(0.5)
    assert one.advance(200.5).data == "b"


@pytest.mark.parametrize(("step", "speed"), [(1, 2.0), (2, 4.0), (99, SPEEDS[-1]), (-1, 0.5), (-99, 0.5)])
def test_speed(step: int, speed: float) -> None:
    one = player(*THREE)
    one.change_speed(step, 0.0)
    assert one.speed == speed
    assert one.wait() == pytest.approx(1.0 / speed)
    assert one.advance(1.0 / speed).data == "a"


def test_the_next_output_is_drawn_while_paused() -> None:
    one = player((1.0, "o", "a"), (1.0, "m", "alice types"), (1.0, "r", "90x30"), (1.0, "o", "b"))
    assert one.step().data == "a"
    assert one.is_paused
    assert one.step().data == "b"
    assert one.size == (30, 90)
    assert one.position == 4.0
    assert one.step() == Draw("")
    assert one.marker == "alice types"


def test_a_jump_draws_the_screen_of_that_time() -> None:
    one = player((1.0, "o", screen("first")), (1.0, "o", "a"), (1.0, "o", screen("second")), (1.0, "o", "b"))
    assert one.jump(2.5, 0.0) == Draw(f"{screen('first')}a", anew=True)
    assert one.jump(99.0, 0.0) == Draw(f"{screen('second')}b", anew=True)
    assert one.position == 4.0
    assert one.is_over
    assert one.jump(-5.0, 10.0) == Draw("", anew=True)
    assert one.wait() == 1.0
    assert one.advance(11.0).data == screen("first")


def test_markers_are_gone_to_in_both_directions() -> None:
    one = player((1, "m", "alice types"), (1, "o", "a"), (1, "m", "bob types"), (1, "o", "b"))
    one.pause(0.0)
    for step, position in ((1, 1.0), (1, 3.0), (-1, 1.0)):
        assert one.to_marker(step, 0.0) is not None
        assert one.position == position
    assert one.to_marker(-1, 0.0) is None
    assert one.note == "no marker stands before"
    one.jump(99.0, 0.0)
    assert one.to_marker(1, 0.0) is None
    assert one.note == "no marker follows"


class TestSearch:
    def test_it_finds_what_is_drawn_in_colours_and_pauses_there(self) -> None:
        one = player((1, "o", "a"), (1, "o", "\x1b[31mNaN\x1b[0m loss"), (1, "o", "b"), (1, "o", "nan LOSS"))
        assert one.search("nan loss", 0.0) is not None
        assert (one.position, one.is_paused, one.note) == (2.0, True, "found at 0:02; n searches on")
        assert one.search("", 0.0) is not None
        assert one.position == 4.0
        assert one.search("", 0.0) is not None
        assert one.note == "found from the beginning on, at 0:02; n searches on"

    def test_it_finds_what_is_cut_between_two_outputs_once(self) -> None:
        one = player((1, "o", "lo"), (1, "o", "ss = 1"), (1, "o", "end"))
        one.search("loss", 0.0)
        assert one.position == 2.0
        one.search("", 0.0)
        assert one.note.startswith("found from the beginning on")

    def test_what_is_not_there_moves_nothing(self) -> None:
        one = player(*THREE)
        assert one.search("xyz", 0.0) is None
        assert (one.position, one.is_paused, one.note) == (0.0, False, "not found")
        assert player(*THREE).search("", 0.0) is None


@given(st.lists(st.sampled_from(["tick", "pause", "+", "-", ".", "jump", "[", "]", "/"]), max_size=40), st.floats(0, 5))
def test_whatever_keys_come_the_end_is_reached_and_times_are_in_bounds(keys: list[str], at: float) -> None:
    one, now = player(*THREE, (1, "m", "x"), *THREE), 0.0
    for key in keys:
        now += 0.3
        match key:
            case "tick":
                one.advance(now)
            case "pause":
                one.pause(now)
            case "+" | "-":
                one.change_speed(1 if key == "+" else -1, now)
            case ".":
                one.step()
            case "jump":
                one.jump(at, now)
            case "[" | "]":
                one.to_marker(1 if key == "]" else -1, now)
            case _:
                one.search("c", now)
        assert 0.0 <= one.position <= one.tape.duration
        assert one.speed in SPEEDS
    if one.is_paused:
        one.pause(now)
    one.advance(now + 100.0)
    assert one.is_over


def test_much_output_at_once_is_drawn_in_parts() -> None:
    one = player(*[(0.0, "o", "x" * 10_000) for _ in range(50)])
    parts = []
    while not one.is_over:
        parts.append(one.advance(1.0).data)
    assert "".join(parts) == "x" * 500_000
    assert max(map(len, parts)) <= AT_ONCE + 10_000
