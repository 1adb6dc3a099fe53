"""The line below a job's output, on an emulated screen: what the job prints looks as if the line were never there."""

from __future__ import annotations

import random

import pytest

from dbg_client.run.job_output import LastLine, clipped
from tests.support.screen import VirtualScreen

ROWS, COLUMNS = 8, 20


class Shown:
    """A screen with the line, and one beside it that gets the job's output alone."""

    def __init__(self, rows: int = ROWS) -> None:
        self.line = LastLine()
        self.rows = rows
        self.screen, self.plain = VirtualScreen(rows, COLUMNS), VirtualScreen(rows, COLUMNS)

    def prints(self, text: str, kept: str = "") -> None:
        data = text.encode()
        # A terminal in its usual mode makes a carriage return and a line feed of each.
        on_screen = data.replace(b"\n", b"\r\n")
        erased = self.line.erase(COLUMNS, data)
        self.line.note(data)
        self.screen.feed(erased + on_screen)
        self.plain.feed(on_screen)
        if kept:
            self.keeps(kept)

    def keeps(self, text: str) -> None:
        self.screen.feed(self.line.draw(text, self.rows, COLUMNS))

    @property
    def output(self) -> list[str]:
        return [row for row in self.screen.rows if row]


def test_the_line_stays_below_what_is_printed() -> None:
    shown = Shown()
    shown.prints("one\n", "waiting")
    assert shown.output == ["one", "waiting"]
    shown.prints("two\n", "waiting")
    assert shown.output == ["one", "two", "waiting"]
    shown.screen.feed(shown.line.erase(COLUMNS))
    assert shown.screen.rows == shown.plain.rows
    assert shown.screen.cursor == shown.plain.cursor


def test_it_is_kept_at_the_end_of_a_screen_that_scrolls() -> None:
    shown = Shown()
    for number in range(30):
        shown.prints(f"line {number}\n", "waiting")
    assert shown.screen.rows == [*(f"line {number}" for number in range(24, 30)), "", "waiting"]


def test_a_bar_that_is_drawn_over_and_over_stays_a_bar() -> None:
    shown = Shown()
    for percent in range(0, 101, 10):
        shown.prints(f"\r{percent:3}%|{'#' * (percent // 10):10}|", "waiting")
    assert shown.output == ["100%|##########|", "waiting"]
    shown.prints("\nend\n")
    assert shown.output == ["100%|##########|", "end"]


def test_bars_below_each_other_stay_where_they_are() -> None:
    shown = Shown()
    # As tqdm draws them: the cursor is behind the upper one.
    for count in range(5):
        shown.prints(f"\router {count}", "waiting")
        shown.prints(f"\n\rinner {count}\x1b[A", "waiting")
        shown.prints("\r")
        assert shown.screen.rows[:2] == shown.plain.rows[:2]
        shown.keeps("waiting")
        assert shown.screen.rows[2] == "waiting"
    assert shown.output == ["outer 4", "inner 4", "waiting"]


def test_a_full_row_goes_on_in_the_next_one() -> None:
    shown = Shown()
    shown.prints("x" * COLUMNS, "waiting")
    shown.prints("y\n", "waiting")
    assert shown.output == ["x" * COLUMNS, "y", "waiting"]


def test_colours_of_the_job_are_not_the_lines_and_go_on_behind_it() -> None:
    shown = Shown()
    shown.prints("\x1b[31mred", "waiting")
    assert shown.screen.colours(1)[0] == ("default", "default")
    shown.prints("der\n")
    assert shown.screen.colours(0)[4] == ("red", "default")


@pytest.mark.parametrize("text", ["one\n", "one", "no\rone\n"])
def test_an_enter_that_was_typed_leaves_nothing_of_it(text: str) -> None:
    shown = Shown()
    shown.prints(text, "waiting for long")
    shown.screen.feed(b"\r\n")
    shown.prints("two\n")
    assert shown.output == ["one", "two"]


def test_what_a_carriage_return_goes_back_over_stays() -> None:
    shown = Shown()
    shown.prints("50%|####\r", "waiting")
    shown.prints("60%", "waiting")
    assert shown.output == ["60%|####", "waiting"]


@pytest.mark.parametrize("screen", ["\x1b[?1049h", "\x1b[3;4H", "\x1b[2;5r", "\x1b7", "\x1b[s"])
def test_a_job_that_draws_a_screen_of_its_own_is_left_alone(screen: str) -> None:
    line = LastLine()
    line.note(screen.encode())
    assert not line.is_possible
    assert line.draw("waiting", ROWS, COLUMNS) == b""


def test_more_bars_than_a_screen_has_rows_are_left_alone() -> None:
    shown = Shown(rows=3)
    shown.prints("one\ntwo\x1b[A", "waiting")
    assert shown.screen.rows == shown.plain.rows


def test_a_long_sentence_is_cut() -> None:
    shown = Shown()
    shown.prints("one\n", "a sentence that is longer than the screen is wide")
    assert shown.output[1] == "a sentence that i…"
    assert clipped("界界界", 5) == "界…"
    assert clipped("short", 5) == "short"


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_printed_looks_the_same_without_the_line(seed: int) -> None:
    pieces = ["one\n", "two", "\rbar 50%", "\x1b[31mred\x1b[0m", "\n\n", "x" * COLUMNS, "\x1b[K", "\n\x1b[A", "y" * 7]
    chosen = random.Random(seed)  # noqa: S311
    shown = Shown()
    for _ in range(chosen.randrange(1, 6)):
        shown.prints(chosen.choice(pieces), chosen.choice(["", "waiting", "still waiting"]))
    shown.screen.feed(shown.line.erase(COLUMNS))
    assert [row for row in shown.screen.rows if row] == [row for row in shown.plain.rows if row]


def test_the_end_is_a_row_of_its_own() -> None:
    shown = Shown()
    assert shown.line.end() == b""
    shown.prints("50%", "waiting")
    shown.screen.feed(shown.line.erase(COLUMNS) + shown.line.end() + b"Attached")
    assert shown.output == ["50%", "Attached"]
