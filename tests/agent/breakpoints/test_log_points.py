"""Texts of log points, and the values in their braces."""

from __future__ import annotations

from types import CodeType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.breakpoints.log_points import MAX_VALUE, LogText, NoLogText

NAMES = {"loss": 0.125, "width": 8, "digits": 2, "batch": {"x": [1, 2]}, "long": "x" * 2 * MAX_VALUE}


def evaluate(code: CodeType) -> object:
    return eval(code, dict(NAMES))  # noqa: S307 - texts of this file


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("loss {loss}", "loss 0.125"),
        ("{loss:.2f} and {batch!r}", "0.12 and {'x': [1, 2]}"),
        ("{ {'a': 1}['a'] }", "1"),
        ("{batch['x'][0:1]}", "[1]"),
        ("{{{loss}}}", "{0.125}"),
        ("{1 / 0} {loss}", "<ZeroDivisionError: division by zero> 0.125"),
        ("{__import__('sys').exit(3)}", "<SystemExit: 3>"),
        ("}", "}"),
        ("{loss!s} {loss!r:>7} {loss=}", "0.125   0.125 loss=0.125"),
        ("{loss:{width}.{digits}f}", "    0.12"),
        ("it's '{loss}'", "it's '0.125'"),
        ("C:\\new\\{loss}\\", "C:\\new\\0.125\\"),
        ('{loss} "', '0.125 "'),
        ("two\nlines {loss}", "two\nlines 0.125"),
    ],
)
def test_values_stand_in_braces(text: str, filled: str) -> None:
    assert LogText(text).filled(evaluate) == filled


def test_a_long_value_is_cut() -> None:
    assert LogText("{long}").filled(evaluate) == "x" * MAX_VALUE + "…"


@pytest.mark.parametrize("text", ["{", "{}", "a {1 +} b", "{loss"])
def test_braces_without_an_expression_are_refused(text: str) -> None:
    with pytest.raises(NoLogText, match="holds no expression"):
        LogText(text)


@given(st.text("{}!:'\"a1[] .+f"))
def test_any_text_is_filled_or_refused(text: str) -> None:
    try:
        log = LogText(text)
    except NoLogText:
        return
    assert isinstance(log.filled(lambda _code: 1), str)
