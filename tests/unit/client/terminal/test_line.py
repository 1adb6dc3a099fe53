"""The prompt of a line debugger: history, replies, completion, source, and output in lines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from dbg_client.terminal.attach import commands_of, read_startup
from dbg_client.terminal.line_display import LineDisplay, replies
from dbg_client.terminal.prompt import (
    MAX_PARTIAL,
    Lines,
    RankCompleter,
    UserHistory,
    word_start,
)
from dbg_wire.errors import BadInput
from dbg_wire.limits import MAX_INPUT_PENDING
from dbg_wire.messages import PromptInfo, PromptState
from tests.unit.client.fake_broker import make_prompt


def test_the_history_contains_only_entries_that_may_be_kept() -> None:
    UserHistory(lambda: True).append_string("p loss")
    UserHistory(lambda: False).append_string("secret")

    assert next(iter(UserHistory(lambda: True).load_history_strings())) == "p loss"


COMMAND, COMMANDS, INPUT = (
    make_prompt(1, state=state) for state in (PromptState.COMMAND, PromptState.COMMANDS, PromptState.INPUT)
)


@pytest.mark.parametrize(
    ("entered", "at", "expected"),
    [
        ("p x", COMMAND, ["p x"]),
        ("", COMMAND, [""]),
        ("\n", COMMAND, [""]),
        ("for i in x:\n    p(i)\n", COMMAND, ["for i in x:\n    p(i)"]),
        ("for i in x:\n    p(i)\n", None, ["for i in x:\n    p(i)"]),
        ("b 3\n\nb 4\nc\n", COMMAND, ["b 3", "b 4", "c"]),
        ("x\nend", COMMANDS, ["x", "end"]),
        ("b 3\nb 4", INPUT, ["b 3\nb 4"]),
        ("n\nn", COMMAND, ["n", "n"]),
        ("n\nx = 1\n", COMMAND, ["n", "x = 1"]),
        ("x = 1\ny = x", COMMAND, ["x = 1\ny = x"]),
        ("for i in x:\n    i\nx", COMMAND, ["for i in x:\n    i\nx"]),
    ],
)
def test_a_code_block_or_a_command_is_one_reply(entered: str, at: PromptInfo | None, expected: list[str]) -> None:
    assert replies(entered, at) == expected


async def test_a_display_closed_before_its_prompt_begins_returns_the_keys() -> None:
    options = SimpleNamespace(attach=SimpleNamespace(prefix=b"\x1d", vi=False), recording=None, color=False)
    host = SimpleNamespace(options=options, seat=SimpleNamespace(watched=lambda part: part))
    display = LineDisplay(cast("Any", host))
    async with asyncio.timeout(10):
        await display.open(b"n")
        assert await display.close() == b"n"


TAB = CompleteEvent(completion_requested=True)


class Rank:
    """A rank that answers a request with these matches, at once or not at all."""

    def __init__(self, *matches: str, silent: bool = False) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.completer = RankCompleter(self._ask)
        self._matches, self._silent = matches, silent

    def _ask(self, line: str, start: int, end: int) -> int:
        self.asked.append((line, start, end))
        number = len(self.asked)
        if not self._silent:
            asyncio.get_running_loop().call_soon(self.completer.answered, number, self._matches)
        return number

    async def complete(self, text: str, cursor: int | None = None) -> list[Completion]:
        document = Document(text, cursor)
        return [found async for found in self.completer.get_completions_async(document, TAB)]


@pytest.mark.parametrize(
    ("line", "start"), [("", 0), ("p lo", 2), ("p self.lo", 2), ("f(a,b", 4), ("b /home/me/tr", 2), ("x[", 2)]
)
def test_words_begin_where_pdb_begins_them(line: str, start: int) -> None:
    assert word_start(line) == start


@pytest.mark.parametrize(
    ("text", "cursor", "asked"),
    [("p self.lo + 1", 9, ("p self.lo + 1", 2, 9)), ("for i in x:\n    self.lo", None, ("    self.lo", 4, 11))],
)
async def test_the_word_before_the_cursor_is_completed(
    text: str, cursor: int | None, asked: tuple[str, int, int]
) -> None:
    rank = Rank("self.loss")
    (found,) = await rank.complete(text, cursor)

    assert rank.asked == [asked]
    assert (found.text, found.start_position, found.display_text) == ("self.loss", -7, "loss")


async def test_names_with_control_characters_are_not_completed() -> None:
    assert [found.text for found in await Rank("a\x1b[2J", "ab", "a\n").complete("a")] == ["ab"]


async def test_a_late_completion_of_a_silent_rank_is_dropped() -> None:
    rank = Rank(silent=True)

    assert await rank.complete("p lo") == []
    rank.completer.answered(1, ("loss",))
    assert await rank.complete("p lo") == []


HOSTILE = b"\x1b[31mred\x1b[0m\ta\x07\x08\x1b[2J\x1b[6n\x1b]0;title\x07\x1bP+q\x1b\\\xc2\x9b6n\x00b\x1b[?25h\x1b[>4m\n"


@pytest.mark.parametrize(
    ("fed", "taken", "shown"),
    [
        ([b"one\ntw", b"o\n"], ["one\n", "two\n"], ["tw", ""]),
        ([b" 1 %\r50 %", b"\r100 %\r\nnext\r\n"], ["", "100 %\nnext\n"], ["50 %", ""]),
        ([b"x" * (MAX_PARTIAL + 1)], ["x" * (MAX_PARTIAL + 1) + "\n"], [""]),
        ([b"a\xff\xc3\n"], ["a\ufffd\ufffd\n"], [""]),
        ([HOSTILE], ["\x1b[31mred\x1b[0m\ta6nb\n"], [""]),
    ],
    ids=["lines", "a progress bar", "a line without an end", "no UTF-8", "colours and tabs alone"],
)
def test_complete_lines_are_printed_and_the_rest_waits(fed: list[bytes], taken: list[str], shown: list[str]) -> None:
    lines = Lines()
    for data, text, rest in zip(fed, taken, shown, strict=True):
        assert lines.feed(data) == text
        assert lines.shown == rest


def test_a_gap_ends_the_line_before_it() -> None:
    lines = Lines()
    lines.feed(b"before\x1b[3")

    assert lines.cut() == "before\n"
    assert lines.feed(b"1m after\n") == "1m after\n"
    assert lines.cut() == ""


@given(st.binary(max_size=80), st.integers(1, 9))
def test_lines_do_not_depend_on_how_the_output_is_split(data: bytes, size: int) -> None:
    data += b"\x18\n"
    parts = Lines()
    whole = Lines().feed(data)

    assert "".join(parts.feed(data[at : at + size]) for at in range(0, len(data), size)) == whole
    assert all(char.isprintable() or char in "\n\t\r\x1b" or ord(char) > 0x9F for char in whole)


def test_comments_and_empty_lines_are_no_commands() -> None:
    assert commands_of("# mine\n\nalias nl n;;l\r\n  b 12  \n   # b 13\n") == ["alias nl n;;l", "b 12"]


def test_each_startup_line_is_sent_to_each_rank_once(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("b 12\nc\n")
    startup = read_startup(str(tmp_path / "x"))
    startup.for_rank("a").popleft()

    assert list(startup.for_rank("a")) == ["c"]
    assert list(startup.for_rank("b")) == ["b 12", "c"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (MAX_INPUT_PENDING + 1), None])
def test_an_unusable_startup_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(BadInput, match=str(path)):
        read_startup(str(path))
