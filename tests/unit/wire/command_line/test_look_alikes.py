from __future__ import annotations

import pytest

from dbg_wire.command_line.look_alikes import LOOK_ALIKES, look_alike


@pytest.mark.parametrize(
    ("text", "encoding", "shown"),
    [
        ("├─ 2 [0,2] step…", "utf-8", "├─ 2 [0,2] step…"),
        ("├─ 2 [0,2]\n└─ 1 … é", "ascii", "|- 2 [0,2]\n`- 1 ... \\xe9"),
        ("└─ é", "latin-1", "`- é"),
        ("\udcff", "utf-8", "\\udcff"),
        ("├", "no-such-encoding", "|"),
        ("plain", "ascii", "plain"),
    ],
)
def test_what_an_encoding_lacks_looks_alike_or_is_escaped(text: str, encoding: str, shown: str) -> None:
    assert look_alike(text, encoding) == shown


def test_look_alikes_can_be_written_anywhere() -> None:
    assert all(shown.isascii() and len(char) == 1 and not char.isascii() for char, shown in LOOK_ALIKES.items())
