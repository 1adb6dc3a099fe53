"""Keys that are taken as whole lines, without a look at each key."""

from __future__ import annotations

import pytest

from dbg_client.terminal.line_keys import whole_lines
from dbg_client.terminal.prompt_keys import key_bytes, key_presses


@pytest.mark.parametrize(
    ("typed", "lines", "rest"),
    [
        ("n\rn\r", ["n", "n"], ""),
        ("p 1\rp 2\rp", ["p 1", "p 2"], "p"),
        ("x", [], "x"),
        ("", [], ""),
        ("\r\r", ["", ""], ""),
        ("n\r\x03n\r", ["n"], "\x03n\r"),
        ("n\rp x\ty\rn\r", ["n"], "p x\ty\rn\r"),
        ("n\r\x1b[An\r", ["n"], "\x1b[An\r"),
        ("n\r\x1b[200~p 1\rp 2\x1b[201~\r", ["n"], "p 1\rp 2\r"),
        ("p 'ü'\n\x1dd", ["p 'ü'"], "\x1dd"),
    ],
)
def test_lines_end_at_the_first_key_that_is_more_than_text(typed: str, lines: list[str], rest: str) -> None:
    taken, left = whole_lines(key_presses(typed.encode()))
    assert taken == lines
    assert key_bytes(left).decode() == rest
