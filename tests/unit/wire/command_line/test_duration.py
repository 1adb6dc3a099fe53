from __future__ import annotations

import pytest

from dbg_wire.command_line.parser import read_duration
from dbg_wire.errors import BadInput


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60", 60.0), ("60s", 60.0), ("5m", 300.0), ("1h", 3600.0), ("0.5", 0.5), ("1.5m", 90.0), ("2d", 172800.0)],
)
def test_a_span_is_read(text: str, seconds: float) -> None:
    assert read_duration(text, "--for", 1e6) == seconds


@pytest.mark.parametrize(
    ("text", "most", "says"),
    [("999999999h", 864000.0, "give 10d at most"), ("2m", 119.5, "give 119.5s at most"), ("1e9", 1e6, "60s, 5m or 1h")],
)
def test_what_is_too_long_is_told_the_most(text: str, most: float, says: str) -> None:
    with pytest.raises(BadInput, match=f"--for '{text}' .*; .*{says}"):
        read_duration(text, "--for", most)


@pytest.mark.parametrize("text", ["", "0", "-1", "soon", "5 m", "1w", "nan", "inf", "s", "\x1b"])
def test_what_is_none_is_refused_with_the_name_of_the_option(text: str) -> None:
    with pytest.raises(BadInput, match="--for") as error:
        read_duration(text, "--for", 1e6)

    assert str(error.value).isprintable()
    assert "60s, 5m or 1h" in str(error.value)
