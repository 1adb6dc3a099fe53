from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.output import DummyOutput

from dbg_client.terminal.key_presses import key_bytes
from dbg_client.terminal.pager import Pager, wrapped
from dbg_client.views.width import text_width
from tests.support.time_unit import seconds

ROWS = 11


class Screen(DummyOutput):
    def get_size(self) -> Size:
        return Size(rows=ROWS, columns=40)


async def left_over(lines: int, keys: str) -> str:
    """Return the keys that remain when the pager of so many lines has ended."""
    with create_pipe_input() as source:
        source.send_text(keys)
        pager = Pager("".join(f"line {number}\n" for number in range(lines)), source, Screen())
        await asyncio.wait_for(pager.run(), seconds(10))
        return key_bytes(get_typeahead(source)).decode()


@pytest.mark.parametrize("key", [" ", "q", "x", "\r", "\x1b[A", "\x03", "\t", "\x7f"])
async def test_any_key_leaves_what_fits(key: str) -> None:
    assert await left_over(ROWS - 1, f"{key}rest") == "rest"


@pytest.mark.parametrize(
    "keys",
    [
        "q",
        "\x03",
        "   ",
        "j" * 16,
        "\r" * 16,
        "xyz   ",
        " b   ",
        "G ",
        "\x1b[F\x1b[H\x1b[6~\x1b[6~\x1b[6~",
    ],
)
async def test_a_long_text_is_left_with_q_or_behind_its_end(keys: str) -> None:
    assert await left_over(25, f"{keys}rest") == "rest"


async def test_a_lone_escape_leaves() -> None:
    assert await left_over(25, "\x1b") == ""


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=200), st.integers(2, 30))
def test_a_wrapped_text_is_all_there_and_fits(text: str, columns: int) -> None:
    rows = [fragment_list_to_text(row) for row in wrapped(text, columns)]

    assert "".join(rows) == text
    assert all(text_width(row) <= columns for row in rows)


def test_colours_stay_and_lines_stay_lines() -> None:
    rows = wrapped("a\x1b[31mbc\x1b[0m\nd\n", 2)

    assert [fragment_list_to_text(row) for row in rows] == ["ab", "c", "d"]
    assert [bool(re.search("red", fragment[0])) for row in rows for fragment in row] == [False, True, True, False]
