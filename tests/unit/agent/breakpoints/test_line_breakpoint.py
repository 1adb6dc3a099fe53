"""Texts of log points, and the values in their braces."""

from __future__ import annotations

from types import CodeType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.breakpoints.conditional_stop import MAX_VALUE, LogText, NoHits, NoLogText, hits_of
from dbg_agent.breakpoints.line_breakpoints import MAX_OF_JOB, MAX_OF_RANK, LogPace
from dbg_wire.records.inspection import BreakpointSpec
from tests.conftest import Approved
from tests.unit.agent import pdb_driver
from tests.unit.agent.breakpoints.asking import ask
from tests.unit.agent.pdb_driver import train
from tests.unit.agent.pudb_viewer import Viewer, play

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
def test_values_fill_braces(text: str, filled: str) -> None:
    assert LogText(text).filled(evaluate) == filled


def test_a_long_value_is_cut() -> None:
    assert LogText("{long}").filled(evaluate) == "x" * MAX_VALUE + "…"


@pytest.mark.parametrize("text", ["{", "{}", "a {1 +} b", "{loss"])
def test_braces_without_an_expression_are_refused(text: str) -> None:
    with pytest.raises(NoLogText):
        LogText(text)


@given(st.text("{}!:'\"a1[] .+f"))
def test_any_text_is_filled_or_refused(text: str) -> None:
    try:
        log = LogText(text)
    except NoLogText:
        return
    assert isinstance(log.filled(lambda _code: 1), str)


@pytest.mark.parametrize(
    ("world_size", "rate"),
    [(1, MAX_OF_RANK), (200, MAX_OF_RANK), (512, MAX_OF_JOB // 512), (100_000, 1)],
)
def test_a_rank_of_a_large_job_prints_fewer_log_lines(approved: Approved, world_size: int, rate: int) -> None:
    pace = LogPace(world_size)
    lines = [pace.line("x", 5.5) for _ in range(rate + 3)]
    assert lines == ["x"] * rate + [None] * 3
    approved(pace.line("y", 6.0))
    assert pace.line("z", 7.0) == "z"


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("3", [3, 4, 5, 6]),
        ("== 3", [3]),
        ("=3", [3]),
        (">= 5", [5, 6]),
        ("> 5", [6]),
        ("<2", [1]),
        ("<= 2", [1, 2]),
        ("% 2 == 0", [2, 4, 6]),
        ("%2==1", [1, 3, 5]),
        ("% 4", [4]),
    ],
)
def test_hits_are_counted_from_one(text: str, stops: list[int]) -> None:
    compare = hits_of(text)
    assert compare is not None
    assert [count for count in range(1, 7) if compare(count)] == stops


@given(st.text() | st.from_regex(r"[=<>%! 0-9]{1,12}", fullmatch=True))
def test_any_other_text_is_refused_and_no_comparison_fails(text: str) -> None:
    try:
        compare = hits_of(text)
    except NoHits:
        return
    assert isinstance(compare(1), bool) if compare is not None else text.strip() == ""


SECOND = train.__code__.co_firstlineno + 4
"""Line of ``total += 2``."""


def test_pudb_draws_ide_breakpoints_and_reports_its_own(viewer: Viewer) -> None:
    ours, theirs = (f"pdb_driver.py:{line} (" for line in (SECOND + 1, SECOND))

    def script() -> None:
        viewer.opens()
        (state,) = ask(viewer, BreakpointSpec(file=pdb_driver.__file__, line=SECOND, condition="total == 2"))
        assert state.is_set
        # `b` in the line of the IDE's breakpoint clears it, and one line further sets one.
        viewer.does((b"", theirs), (b"jjb", f"!{theirs}"))
        assert ask(viewer) == ()
        viewer.does((b"jb", ours))
        (state,) = ask(viewer)
        assert (state.asked, state.line, state.is_set) == (SECOND + 1, SECOND + 1, True)
        viewer.does((b"c", "> total += 3"), (b"b", f"!{ours}"), (b"c", ""))

    assert play(viewer, script) == 7
