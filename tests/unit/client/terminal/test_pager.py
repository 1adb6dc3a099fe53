from __future__ import annotations

import asyncio

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.output import DummyOutput

from dbg_client.terminal import pager as pager_module
from dbg_client.terminal.pager import Pager
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
