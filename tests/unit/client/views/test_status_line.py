from __future__ import annotations

import re
from dataclasses import replace

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from dbg_client.views.status_line import Status, paint, render
from dbg_client.views.table import text_width
from dbg_wire.sequences import StreamScanner
from tests.conftest import Approved

STOPPED = Status(address="gpu013:5", state="stopped", place="train.py:41 in step", others_stopped=3)

foreign = st.text(max_size=30) | st.sampled_from(
    ["gpu013:5", "日本語", "é\u0301", "☎\ufe0f" * 9, "\x1b[2J", "a\nb", "…" * 9]
)
statuses = st.builds(
    Status,
    address=foreign,
    state=st.sampled_from(["running", "stopped", "held", "unresponsive", "lost", "exited"]),
    place=st.none() | foreign,
    since=st.none() | st.floats(0, 1e6),
    others_stopped=st.integers(0, 2000),
    others_held=st.integers(0, 2000),
    driving=st.booleans(),
    driver=st.none() | foreign,
    detail=foreign,
    notices=st.lists(foreign, max_size=3).map(tuple),
    prefix=st.sampled_from(["Ctrl-]", ""]),
    pending=st.booleans(),
    cropped=st.booleans(),
)


def plain(status: Status, columns: int) -> str:
    return render(status, columns, color=False)


def test_a_crash_says_its_exception_as_far_as_there_is_room(approved: Approved) -> None:
    crashed = replace(STOPPED, state="crashed", detail="ValueError: loss is nan", notices=("c or q lets it end",))

    assert plain(crashed, 110).startswith(" gpu013:5  crashed: ValueError: loss is nan  train.py:41 in step    c or q")
    approved(plain(crashed, 80))
    approved(plain(crashed, 60), "2")


def test_the_longest_wording_that_fits_is_shown() -> None:
    running = replace(STOPPED, state="running", since=4.0, place=None, notices=("x" * 60, "y" * 30, "z" * 10))

    assert [letter for columns in (120, 80, 50) for letter in "xyz" if letter * 10 in plain(running, columns)] == [
        "x",
        "y",
        "z",
    ]


def test_a_stops_detail_stands_behind_its_place() -> None:
    clock = "gloo collectives that wait for it time out in 30 min"

    assert f"train.py:41 in step  {clock}    3 others" in plain(replace(STOPPED, detail=clock), 160)
    assert "train.py:41 in step  gloo collectives that wai…    3 others" in plain(replace(STOPPED, detail=clock), 110)
    assert "gloo" not in plain(replace(STOPPED, detail=clock), 100)


def test_a_stop_says_where_what_else_and_how_to_leave() -> None:
    assert plain(STOPPED, 100) == (
        " gpu013:5  stopped  train.py:41 in step    3 others stopped      Ctrl-] d detaches, Ctrl-] ? helps "
    )


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (97, " gpu013:5  stopped  train.py:41 in step    3 others stopped    Ctrl-] d detaches, Ctrl-] ? helps"),
        (96, " gpu013:5  stopped  train.py:41 in step    3 others stopped                  Ctrl-] d detaches "),
        (81, " gpu013:5  stopped  train.py:41 in step    3 others stopped    Ctrl-] d detaches"),
        (80, " gpu013:5  stopped  train.py:41 in step      Ctrl-] d detaches, Ctrl-] ? helps "),
        (70, " gpu013:5  stopped  train.py:41 in step            Ctrl-] d detaches "),
        (60, " gpu013:5  stopped  train.py:41 in s…    Ctrl-] d detaches"),
        (40, " gpu013:5  stopped    Ctrl-] d detaches"),
        (32, " gpu013:5  stopped    Ctrl-] d "),
        (25, " gpu013:5  stopped      "),
        (12, " gpu013:5  "),
        (8, " gpu0…"),
        (1, ""),
        (0, ""),
    ],
)
def test_a_narrow_line_gives_up_the_least_important_first(columns: int, expected: str) -> None:
    assert plain(STOPPED, columns) == expected


def test_a_notice_takes_the_middle_and_outranks_how_to_leave() -> None:
    status = replace(STOPPED, notices=("3 keys were discarded",))
    assert "step    3 keys were discarded  " in plain(status, 120)
    assert "others" not in plain(status, 200)
    assert plain(status, 48) == " gpu013:5  stopped    3 keys were discarded    "


def test_a_watcher_reads_who_types() -> None:
    assert "stopped  watching, h1:alice types  train.py" in plain(
        replace(STOPPED, driving=False, driver="h1:alice"), 120
    )
    assert "watching, nobody types" in plain(replace(STOPPED, driving=False), 120)
    assert "h1:alice" not in plain(replace(STOPPED, driver="h1:alice"), 120)


@pytest.mark.parametrize(
    ("state", "since", "expected"),
    [
        ("unresponsive", 12.9, "silent for 12 s"),
        ("unresponsive", None, "silent"),
        ("running", 119.0, "running for 119 s"),
        ("held", 125.0, "held for 2 min"),
        ("lost", 7260.0, "lost for 2 h"),
        ("stopped", 5.0, "stopped"),
        ("exited", 5.0, "exited"),
    ],
)
def test_the_state_says_how_long_where_that_matters(state: str, since: float | None, expected: str) -> None:
    line = plain(Status(address="h:0", state=state, since=since), 100)
    assert line.startswith(f" h:0  {expected}  ")


def test_a_wait_for_others_stands_for_the_state_and_for_their_number() -> None:
    waits = "waits in all_reduce for 3 stopped ranks"
    line = plain(Status(address="h:0", state="running", since=14.0, waits=waits, others_stopped=3), 100)
    assert line.startswith(f" h:0  {waits}  ")
    assert "others" not in line
    assert "running" not in line
    narrow = plain(Status(address="h:0", state="running", waits=waits), 40)
    assert narrow.startswith(" h:0  waits in all_reduce  ")
    assert "Ctrl-] d" in narrow


@pytest.mark.parametrize(
    ("stopped", "held", "expected"),
    [
        (1, 0, "1 other stopped"),
        (0, 1, "1 other held"),
        (0, 5, "5 others held"),
        (3, 5, "others: 3 stopped, 5 held"),
        (0, 0, "step   "),
    ],
)
def test_the_others_are_counted(stopped: int, held: int, expected: str) -> None:
    assert f"  {expected} " in plain(replace(STOPPED, others_stopped=stopped, others_held=held), 120).replace("in", " ")


def test_while_a_key_is_awaited_the_line_says_which_there_are(approved: Approved) -> None:
    pending = replace(STOPPED, pending=True, notices=("keys were discarded",))
    assert "Ctrl-], then: d detach" in plain(pending, 160)
    approved(plain(pending, 160))
    approved(plain(pending, 60).rstrip(), "2")
    assert "keys were discarded" not in plain(pending, 60)


def test_a_part_of_a_screen_is_called_that(approved: Approved) -> None:
    approved(plain(replace(STOPPED, cropped=True), 120))
    assert "  cut off  train" in plain(replace(STOPPED, cropped=True), 60)
    assert plain(replace(STOPPED, cropped=True), 40) == plain(STOPPED, 40)


def test_without_an_escape_key_none_is_promised() -> None:
    assert "detach" not in plain(replace(STOPPED, prefix=""), 200)
    assert "detach" not in plain(replace(STOPPED, prefix="", pending=True), 200)


def test_foreign_text_shows_its_control_characters() -> None:
    line = plain(Status(address="h\x1b]0;x\x07:1", state="stopped", place="a\nb\u202e", notices=("\x9b6n",)), 200)
    assert "h\\x1b]0;x\\x07:1" in line
    assert "a\\nb\\u202e" in line
    assert "\\x9b6n" in line


@given(statuses, st.integers(-1, 300))
def test_the_line_is_never_wider_than_the_screen_less_one(status: Status, columns: int) -> None:
    line = plain(status, columns)
    assert line.isprintable()
    assert "\ufe0f" not in line
    assert get_cwidth(line) <= text_width(line) == max(0, columns - 1)


@given(statuses, st.integers(0, 300))
def test_colour_adds_only_colour(status: Status, columns: int) -> None:
    assert re.sub(r"\x1b\[[0-9]+m", "", render(status, columns)) == plain(status, columns)


def test_states_that_need_attention_are_coloured() -> None:
    assert "\x1b[31msilent for 4 s\x1b[39m" in render(replace(STOPPED, state="unresponsive", since=4), 100)
    assert "\x1b" not in render(STOPPED, 100)


@given(statuses)
@example(Status(address="h:0", state="stopped", notices=("🇦🇦",)))
@example(Status(address="h:0", state="stopped", notices=("☎\ufe0f",)))
def test_painting_changes_one_row_and_nothing_else(status: Status) -> None:
    screen = pyte.Screen(60, 10)
    stream = pyte.ByteStream(screen)
    stream.feed(b"\x1b[31mtop\r\n\x1b[5;7H\x1b(0\x0equ")
    before = screen.display[:9]
    x, y, attributes = screen.cursor.x, screen.cursor.y, screen.cursor.attrs
    stream.feed(paint(render(status, 60), 10))
    assert screen.display[:9] == before
    assert (screen.cursor.x, screen.cursor.y, screen.cursor.attrs) == (x, y, attributes)


def test_painting_shows_the_text_inverse_whatever_the_rank_has_switched_on() -> None:
    screen = pyte.Screen(100, 10)
    stream = pyte.ByteStream(screen)
    stream.feed(b"\x1b%@\x1b[10;1H" + b"x" * 100 + b"\x1b[31m\x1b(0\x1b)0\x0e")
    stream.feed(paint(plain(STOPPED, 100), 10))
    assert screen.display[9] == plain(STOPPED, 100) + " "
    assert {screen.buffer[9][column].reverse for column in range(99)} == {True}
    assert screen.buffer[9][0].fg == "default"


@given(statuses, st.integers(0, 200))
def test_painting_is_whole_sequences(status: Status, columns: int) -> None:
    scanner = StreamScanner()
    scanner.feed(paint(render(status, columns), 24))
    assert scanner.at_rest


def test_a_number_is_shown_with_its_unit_or_not_at_all() -> None:
    status = Status(address="gpu013:5", state="running", since=100.0)
    for columns in range(20, 60):
        shown = plain(status, columns)
        assert "100" not in shown or "running for 100 s" in shown
