"""What an IDE is told of breakpoints that many ranks have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.dap.breakpoint_table import (
    NO_RANK,
    BreakpointTable,
    ShownBreakpoint,
    asked_file,
    asked_wishes,
    exception_answer,
)
from dbg_client.dap.messages import Client
from dbg_client.dap.source import Paths
from dbg_wire.errors import BadInput
from dbg_wire.records.breakpoints import BreakpointState, BreakpointsWish, BreakpointWish, LineOfFile
from dbg_wire.records.record import checked
from tests.conftest import Approved
from tests.support.rank_infos import rank

RANKS = [rank(f"gpu0:{number}") for number in range(4)]
WISH = BreakpointWish(file="/t.py", line=5)


def state(asked: int = 5, line: int = 0, *, is_set: bool = True, problem: str = "") -> BreakpointState:
    """Return what a rank tells of a breakpoint."""
    return BreakpointState(file="/t.py", asked=asked, line=line or asked, is_set=is_set, problem=problem)


def with_wish(*states: BreakpointState) -> tuple[BreakpointTable, ShownBreakpoint]:
    """Return a table with one breakpoint, which the first ranks answer so."""
    table = BreakpointTable()
    (line,) = table.replace("/t.py", [WISH]).lines
    for one, told in zip(RANKS, states, strict=False):
        table.note(one.key, (told,))
    return table, line


def test_a_breakpoint_that_all_ranks_have_needs_no_words() -> None:
    table, line = with_wish(*[state(line=6)] * 4)
    assert table.shown(line, RANKS) == {"id": line.id, "verified": True, "line": 6}
    table.keep_only(one.key for one in RANKS[:1])
    assert "ranks 1-3" in table.shown(line, RANKS)["message"]


def test_ranks_without_it_are_named_with_the_reason(approved: Approved) -> None:
    table, line = with_wish(state(), state(), state(is_set=False, problem="no such file"), state(line=7))
    told = table.shown(line, RANKS)
    assert (told["verified"], told["line"]) == (True, 5)
    assert told["message"] == "not in rank 2: no such file; at line 7 in rank 3"
    table.failed(RANKS[0].key, "it runs an older release")
    table.note(RANKS[1].key, ())
    table.note(RANKS[2].key, ())
    # What rank 2 has said of it once still holds.
    assert "not in rank 2: no such file" in table.shown(line, RANKS)["message"]
    approved(table.shown(line, RANKS)["message"])


def test_what_hinders_everybody_is_told_without_names_and_what_hostile_ranks_say_is_escaped() -> None:
    table, line = with_wish(*[state(is_set=False, problem="no \x1bline")] * 4)
    told = table.shown(line, RANKS)
    assert (told["verified"], told["message"]) == (False, "no \\x1bline")
    assert table.shown(line, [])["message"] == NO_RANK


def test_only_what_is_gone_is_cleared_and_numbers_stay() -> None:
    table, line = with_wish(state())
    plan = table.replace(
        "/t.py", [BreakpointWish(file="/t.py", line=5, condition="x"), BreakpointWish(file="/t.py", line=9)]
    )
    assert plan.clear == ()
    assert [one.wish.line for one in plan.lines] == [5, 9]
    assert plan.lines[0].id == line.id
    assert plan.lines[0].wish.condition == "x"
    plan = table.replace("/t.py", [BreakpointWish(file="/t.py", line=9)])
    assert plan.clear == (LineOfFile(file="/t.py", line=5),)
    assert table.wishes == (BreakpointWish(file="/t.py", line=9),)
    assert table.replace("/other.py", []).clear == ()


def test_what_a_debugger_has_set_is_not_the_ides() -> None:
    table, line = with_wish(state())
    table.shown(line, RANKS[:1])
    table.note(RANKS[0].key, (state(), state(12)))
    assert table.news(RANKS[:1]) == []
    assert table.replace("/t.py", [WISH]).clear == ()


def test_a_breakpoint_that_is_cleared_everywhere_or_comes_later_is_told(approved: Approved) -> None:
    table, line = with_wish()
    assert table.shown(line, RANKS)["verified"] is False
    for one in RANKS:
        table.note(one.key, (state(),))
    ((_, told),) = table.news(RANKS)
    assert told["verified"]
    table.note(RANKS[0].key, ())
    ((_, told),) = table.news(RANKS)
    approved(told["message"])
    for one in RANKS:
        table.note(one.key, ())
    ((_, told),) = table.news(RANKS)
    assert (told["id"], told["verified"]) == (line.id, False)


def test_conditions_counts_and_log_messages_are_kept() -> None:
    arguments = {"breakpoints": [{"line": 3, "condition": " x > 1 ", "hitCondition": "5", "logMessage": "at {x} "}]}
    (wish,) = asked_wishes(arguments, "/t.py", 1)
    assert wish == BreakpointWish(file="/t.py", line=3, condition="x > 1", hits="5", log="at {x} ")


@pytest.mark.parametrize(("starts_at_1", "shown"), [(None, 3), (True, 3), (False, 2)])
def test_lines_are_numbered_as_the_ide_does(starts_at_1: bool | None, shown: int) -> None:
    client = Client.read({"linesStartAt1": starts_at_1})
    rows = asked_wishes({"breakpoints": [{"line": shown}]}, "/t.py", client.first_line)
    assert rows == [BreakpointWish(file="/t.py", line=3)]


@pytest.mark.parametrize("field", ["condition", "hitCondition", "logMessage"])
def test_a_text_that_cannot_be_sent_is_a_sentence(approved: Approved, field: str) -> None:
    rows = asked_wishes({"breakpoints": [{"line": 3, field: "\ud800"}, {"line": 4}]}, "/t.py", 1)
    assert isinstance(rows[0], str)
    approved(rows[0])
    assert rows[1] == BreakpointWish(file="/t.py", line=4)


values = st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.booleans()
rows = st.dictionaries(st.sampled_from(["line", "condition", "hitCondition", "logMessage", "column"]), values)


@given(st.lists(rows | values, max_size=4))
def test_whatever_comes_is_a_wish_that_ranks_can_read_or_a_sentence(given: list[object]) -> None:
    for one in asked_wishes({"breakpoints": given}, "/t.py", 1):
        if isinstance(one, str):
            assert one.isprintable()
        else:
            assert checked(BreakpointsWish(set=(one,))).set == (one,)


@pytest.mark.parametrize(
    "source", [None, {}, {"path": 5}, {"path": "train.py"}, {"path": "/a\nb"}, {"path": "C:\\x.py"}]
)
def test_a_file_that_ranks_cannot_have_is_refused(source: object) -> None:
    with pytest.raises(BadInput):
        asked_file({"source": source}, Paths())


def test_uncaught_exceptions_are_the_one_filter() -> None:
    rows = exception_answer({"filters": ["uncaught", "raised"]})["breakpoints"]
    assert [row["verified"] for row in rows] == [True, False]
    assert exception_answer({"filters": "x"}) == {"breakpoints": []}
