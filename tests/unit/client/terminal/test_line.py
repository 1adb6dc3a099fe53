"""The prompt of a line debugger: history, replies, completion, source, and output in lines."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from dbg_client.terminal import prompt as line_history
from dbg_client.terminal.attach import Startup, commands_of, read_startup
from dbg_client.terminal.line_display import replies
from dbg_client.terminal.prompt import (
    MAX_PARTIAL,
    Lines,
    RankCompleter,
    history_path,
    line_lexer,
    open_history,
    show_source,
    word_start,
)
from dbg_wire.errors import BadInput
from dbg_wire.limits import MAX_INPUT_PENDING
from dbg_wire.messages import PromptInfo, PromptState, Source
from tests.unit.client.fake_broker import HERE, make_prompt


def strings(environ: dict[str, str]) -> list[str]:
    return list(open_history(environ, lambda: True).load_history_strings())


def test_the_file_is_the_users_own_and_has_what_is_to_be_kept(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    open_history(environ, lambda: True).append_string("p loss")
    open_history(environ, lambda: False).append_string("secret")

    path = tmp_path / ".local/state/dbg-broker/pdb_history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert strings(environ) == ["p loss"]


def test_it_lies_where_the_user_keeps_state(tmp_path: Path) -> None:
    assert history_path({"HOME": "/h", "XDG_STATE_HOME": "/s"}) == Path("/s/dbg-broker/pdb_history")
    assert history_path({"HOME": "/h", "XDG_STATE_HOME": "relative"}) == Path("/h/.local/state/dbg-broker/pdb_history")
    assert history_path({}) is None


def test_without_a_file_it_is_the_sessions_own(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    for environ in ({"HOME": str(blocked)}, {}):
        history = open_history(environ, lambda: True)
        history.append_string("p loss")
        assert history.get_strings() == ["p loss"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "dbg-broker/pdb_history"
    path.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    path.symlink_to(elsewhere)
    open_history({"XDG_STATE_HOME": str(tmp_path)}, lambda: True).append_string("p loss")

    assert not elsewhere.exists()


def test_its_older_half_goes_when_it_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"HOME": str(tmp_path)}
    history = open_history(environ, lambda: True)
    for number in range(100):
        history.append_string(f"p {number}")
    monkeypatch.setattr(line_history, "MAX_BYTES", 1000)

    kept = strings(environ)

    assert kept[0] == "p 99"
    assert 5 < len(kept) < 30
    assert kept == [f"p {99 - age}" for age in range(len(kept))]
    path = history_path(environ)
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def shown_source(source: Source, columns: int = 40) -> list[str]:
    return "".join(part[1] for part in show_source(source, columns, line_lexer(color=True))).split("\n")


def test_the_source_has_numbers_breakpoints_and_the_current_line() -> None:
    lines = ("def f():", "    a = 1", "    b = 2")

    assert shown_source(Source(where=HERE.replace(line=10), first=9, lines=lines, breakpoints=(9, 10))) == [
        "train.py:10 in step",
        " 9 B   def f():",
        "10 B->     a = 1",
        "11         b = 2",
        "",
    ]


def test_the_source_is_cut_to_the_terminal_and_acts_on_nothing() -> None:
    lines = ("x = '\x1b[2J'\t# tab", "y = " + "界" * 40)

    shown = shown_source(Source(where=HERE, first=41, lines=lines, breakpoints=()), columns=30)

    assert shown[1] == "41  -> x = '\\x1b[2J'      # …"
    assert len(shown[2]) == 7 + 4 + (30 - 11) // 2
    assert all(line.isprintable() for line in shown)


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
    ],
)
def test_lines_that_are_no_python_are_one_reply_each(entered: str, at: PromptInfo | None, expected: list[str]) -> None:
    assert replies(entered, at) == expected


TAB = CompleteEvent(completion_requested=True)


class Rank:
    """A rank that answers a request with these matches, at once or not at all."""

    def __init__(self, *matches: str, silent: bool = False) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.completer = RankCompleter(self._ask)
        self._matches, self._silent = matches, silent

    def _ask(self, line: str, begin: int, end: int) -> int:
        self.asked.append((line, begin, end))
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
def test_words_begin_where_pdb_thinks_they_do(line: str, start: int) -> None:
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


async def test_names_that_would_act_on_the_terminal_are_left_out() -> None:
    assert [found.text for found in await Rank("a\x1b[2J", "ab", "a\n").complete("a")] == ["ab"]


async def test_a_silent_rank_completes_nothing_and_its_late_answer_is_dropped() -> None:
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
def test_whole_lines_come_out_and_the_rest_waits(fed: list[bytes], taken: list[str], shown: list[str]) -> None:
    lines = Lines()
    for data, text, rest in zip(fed, taken, shown, strict=True):
        assert lines.feed(data) == text
        assert lines.shown == rest


def test_after_a_gap_the_line_before_it_ends() -> None:
    lines = Lines()
    lines.feed(b"before\x1b[3")

    assert lines.cut() == "before\n"
    assert lines.feed(b"1m after\n") == "1m after\n"
    assert lines.cut() == ""


@given(st.binary(max_size=80), st.integers(1, 9))
def test_it_does_not_matter_how_the_output_is_cut(data: bytes, size: int) -> None:
    data += b"\x18\n"
    parts = Lines()
    whole = Lines().feed(data)

    assert "".join(parts.feed(data[at : at + size]) for at in range(0, len(data), size)) == whole
    assert all(char.isprintable() or char in "\n\t\r\x1b" or ord(char) > 0x9F for char in whole)


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
