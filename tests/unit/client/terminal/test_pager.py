from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.output import DummyOutput

from dbg_client.terminal.options import Startup, commands_of, read_startup
from dbg_client.terminal.pager import Pager
from dbg_wire.errors import BadInput
from dbg_wire.limits import MAX_INPUT_PENDING
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
