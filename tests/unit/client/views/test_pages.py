from __future__ import annotations

import pytest

from dbg_client.terminal import canvas
from dbg_client.terminal.escape import COMMANDS
from tests.conftest import Approved
from tests.support.screen import VirtualScreen


def test_a_page_clears_whatever_stood_there() -> None:
    screen = VirtualScreen(24, 80)
    screen.feed(b"\x1b[?25h\x1b[?1000h\x1b[?2004h\x1b[5;10r\x1b[4h\x1b[7m" + b"junk " * 500)

    screen.feed(canvas.blank("one\n\nthree", 23, 80))

    assert screen.rows == ["", " one", "", " three", *[""] * 20]
    assert screen.cursor_hidden
    assert not screen.private_modes & {1000, 2004}


def test_a_page_is_cut_to_the_terminal() -> None:
    screen = VirtualScreen(4, 10)

    screen.feed(canvas.blank("\n".join(["x" * 100] * 100), 3, 10))

    assert screen.rows[3] == ""
    assert all(len(row) < 10 for row in screen.rows)


def test_pages_and_titles_show_foreign_text_harmlessly() -> None:
    assert b"\x1b[31m" not in canvas.blank("a\x1b[31mb", 23, 80)
    assert canvas.title("a\x07\x1b]52;c;x\x07").count(b"\x07") == 1


def test_the_help_page_names_the_key_in_use() -> None:
    assert "Ctrl-^, then" in canvas.help_text("Ctrl-^")


@pytest.mark.parametrize("page", [canvas.help_text("Ctrl-]"), canvas.line_help("Ctrl-]", sticky=True)])
def test_the_help_pages_name_every_key_behind_the_prefix(approved: Approved, page: str) -> None:
    named = {key for line in page.splitlines() if line.startswith("  ") for key in line[2:12].split()}
    assert named >= COMMANDS
    approved(page)


def test_without_a_prefix_no_key_behind_it_is_named() -> None:
    assert "run it again" not in canvas.line_help("", sticky=True)


def test_the_help_at_pdb_says_what_sticky_does_next(approved: Approved) -> None:
    approved(canvas.line_help("", sticky=True))
    approved(canvas.line_help("", sticky=False), "2")
