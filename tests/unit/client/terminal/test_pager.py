from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.output import DummyOutput

from dbg_client.terminal import pager as pager_module
from dbg_client.terminal.options import Startup, commands_of, read_startup
from dbg_client.terminal.pager import Pager, PageText, wrapped
from dbg_client.views.table import text_width
from dbg_wire.errors import BadInput
from dbg_wire.limits import MAX_INPUT_PENDING
from tests.conftest import Approved
from tests.support.time_unit import seconds

ROWS = 11
PREFIX = b"\x1d"


class Screen(DummyOutput):
    def get_size(self) -> Size:
        return Size(rows=ROWS, columns=60)


async def for_the_session(lines: int, keys: str, prefix: bytes | None = PREFIX) -> bytes:
    """Return the keys that the session gets when the pager of so many lines has ended; nothing may be left behind."""
    with create_pipe_input() as source:
        source.send_text(keys)
        pager = Pager("".join(f"line {number}\n" for number in range(lines)), source, Screen(), prefix)
        keys_left = await asyncio.wait_for(pager.run(), seconds(10))
        assert get_typeahead(source) == []
        return keys_left


@pytest.mark.parametrize("lines", [ROWS - 1, 25])
@pytest.mark.parametrize(
    "keys", ["q", "\x03", " q", "\r\rq", "jkq", "\x1b[B\x1b[6~\x1b[Hq", "Gbq", "g   q", "/line\rnNq"]
)
async def test_moves_stay_on_the_page_and_what_is_typed_behind_q_is_dropped(lines: int, keys: str) -> None:
    assert await for_the_session(lines, f"{keys}rest") == b""


async def test_the_next_match_of_no_search_is_told_to_need_one() -> None:
    with create_pipe_input() as source:
        pager = Pager("line\n", source, Screen(), PREFIX)
        running = asyncio.ensure_future(pager.run())
        told = asyncio.Event()
        pager._application.after_render += lambda _: told.set() if "/ searches" in pager._note else None
        source.send_text("n")
        await asyncio.wait_for(told.wait(), seconds(10))
        assert pager._note == "nothing is found, / searches"
        pager.leave()
        assert await asyncio.wait_for(running, seconds(10)) == b""
        pager.leave()  # of no effect by then


async def test_a_lone_escape_leaves() -> None:
    assert await for_the_session(25, "\x1b") == b""


async def test_a_q_within_a_word_does_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager_module, "WORD_SECONDS", 1000.0)

    with create_pipe_input() as source:
        pager = Pager("line\n", source, Screen(), PREFIX)
        running = asyncio.ensure_future(pager.run())
        source.send_text("e all q")
        dropped = asyncio.Event()
        pager._application.after_render += lambda _: dropped.set() if "'q'" in pager._footer() else None
        waiting = asyncio.ensure_future(dropped.wait())
        await asyncio.wait({running, waiting}, timeout=seconds(10), return_when=asyncio.FIRST_COMPLETED)
        source.send_text("ueue\r\x1dd")

        assert await asyncio.wait_for(running, seconds(10)) == b"\x1dd"
        await waiting


async def test_a_q_after_a_dropped_key_leaves_a_moment_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager_module, "WORD_SECONDS", 0.0)

    assert await for_the_session(5, "xq\x1dd") == b"\x1dd"


@pytest.mark.parametrize(
    ("keys", "session"),
    [
        ("\x1dd", b"\x1dd"),
        ("\x1dnx", b"\x1dnx"),
        ("zz\x1d:where\r", b"\x1d:where\r"),
        (":where\r", b"\x1d:where\r"),
        ("qzz\x1dd", b"\x1dd"),
        ("\x1d]q", b""),
        ("\x1d\x1b[Aq", b""),
        ("/:q\r\x1dd", b"\x1dd"),
        ("/q\x7fx\x1dd", b"\x1dd"),
        ("\x1b[200~e all rank\nq\n\x1b[201~\x1dd", b"\x1dd"),
    ],
)
async def test_the_prefix_and_a_colon_are_for_the_session(keys: str, session: bytes) -> None:
    assert await for_the_session(25, keys) == session


@pytest.mark.parametrize("keys", ["\x1ddq", ":q"])
async def test_without_a_prefix_there_is_no_command(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager_module, "WORD_SECONDS", 0.0)

    assert await for_the_session(25, keys, prefix=None) == b""


def first_footer(lines: int) -> str:
    with create_pipe_input() as source:
        pager = Pager("".join(f"line {number}\n" for number in range(lines)), source, Screen(), PREFIX)
        pager._body()
        return pager._footer()


def test_the_foot_says_first_how_to_leave(approved: Approved) -> None:
    assert first_footer(5) == " q goes back   / searches   : another command"
    approved(first_footer(25))


def page(count: int, height: int = 10) -> PageText:
    text = PageText("".join(f"line {number}\n" for number in range(count)))
    text.measure(height, 40)
    return text


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=200), st.integers(2, 30))
def test_a_wrapped_text_is_all_there_and_fits(text: str, columns: int) -> None:
    rows = [fragment_list_to_text(row) for row in wrapped(text, columns)]

    assert "".join(rows) == text
    assert all(text_width(row) <= columns for row in rows)


def test_colours_stay_and_lines_stay_lines() -> None:
    rows = wrapped("a\x1b[31mbc\x1b[0m\nd\n", 2)

    assert [fragment_list_to_text(row) for row in rows] == ["ab", "c", "d"]
    assert [bool(re.search("red", fragment[0])) for row in rows for fragment in row] == [False, True, True, False]


def test_the_part_in_sight_stops_at_the_ends() -> None:
    text = page(25)
    for rows, top, end in ((-3, 0, 10), (10, 10, 20), (10, 15, 25), (99, 15, 25), (-1, 14, 24), (-99, 0, 10)):
        text.move(rows)
        assert (text.top, text.end) == (top, end)
    assert page(10).fits
    assert not page(11).fits


def test_a_window_that_grows_shows_more() -> None:
    text = page(25)
    text.move(99)
    text.measure(20, 40)

    assert (text.top, text.end) == (5, 25)


def test_a_search_goes_round_in_both_directions() -> None:
    text = page(50)

    assert text.seek("LINE 1")  # line 1 and lines 10 to 19
    assert text.top == 1
    tops = []
    for step in (1, 1, -1, -1, -1):
        assert text.next_match(step)
        tops.append(text.top)
    assert tops == [10, 11, 10, 1, 19]
    assert not text.seek("nowhere")
    assert text.top == 19


def test_a_search_finds_every_row_of_the_last_page() -> None:
    text = page(25)

    assert text.seek("2")
    found = [text.top]
    for _ in range(7):
        text.next_match(1)
        found.append(text.top)
    assert found == [2, 12, 15, 15, 15, 15, 15, 2]


def test_what_is_sought_is_marked() -> None:
    text = page(3)
    text.seek("ine 1")

    marked = "".join(fragment[1] for fragment in text.shown() if "reverse" in fragment[0])

    assert marked == "ine 1"


def test_comments_and_empty_lines_are_no_commands() -> None:
    assert commands_of("# mine\n\nalias nl n;;l\r\n  b 12  \n   # b 13\n") == ["alias nl n;;l", "b 12"]


def test_the_users_file_comes_before_the_one_named(tmp_path: Path) -> None:
    (tmp_path / ".pdbrc").write_text("first\n")
    (tmp_path / "x").write_text("second\n")

    assert list(read_startup(str(tmp_path), str(tmp_path / "x")).for_rank("a")) == ["first", "second"]
    assert list(read_startup(None, str(tmp_path / "x")).for_rank("a")) == ["second"]
    assert list(read_startup(str(tmp_path / "nowhere"), None).for_rank("a")) == []


def test_each_rank_is_told_each_line_once() -> None:
    startup = Startup(["b 12", "c"])
    startup.for_rank("a").popleft()

    assert list(startup.for_rank("a")) == ["c"]
    assert list(startup.for_rank("b")) == ["b 12", "c"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (MAX_INPUT_PENDING + 1), None])
def test_a_file_that_can_not_be_used_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(BadInput, match=str(path)):
        read_startup(None, str(path))
