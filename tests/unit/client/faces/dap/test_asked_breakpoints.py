"""What an IDE asks for as breakpoints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.faces.dap.breakpoint_table import MAX_OF_FILE, asked_file, asked_wishes, exception_answer
from dbg_client.faces.dap.source import Paths
from dbg_wire.errors import BadInput
from dbg_wire.records.breakpoints import BreakpointsWish, BreakpointWish
from dbg_wire.records.record import checked
from tests.conftest import Approved


def test_conditions_counts_and_log_messages_are_kept() -> None:
    arguments = {"breakpoints": [{"line": 3, "condition": " x > 1 ", "hitCondition": "5", "logMessage": "at {x} "}]}
    (wish,) = asked_wishes(arguments, "/t.py", 1)
    assert wish == BreakpointWish(file="/t.py", line=3, condition="x > 1", hits="5", log="at {x} ")


def test_lines_count_from_where_the_ide_counts() -> None:
    assert asked_wishes({"breakpoints": [{"line": 0}]}, "/t.py", 0) == [BreakpointWish(file="/t.py", line=1)]
    assert asked_wishes({"lines": [2, 3]}, "/t.py", 1) == [BreakpointWish(file="/t.py", line=at) for at in (2, 3)]
    assert asked_wishes({"breakpoints": None}, "/t.py", 1) == []


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


def test_more_than_a_file_takes_is_refused() -> None:
    with pytest.raises(BadInput, match=f"more than {MAX_OF_FILE} breakpoints"):
        asked_wishes({"breakpoints": [{"line": 1}] * (MAX_OF_FILE + 1)}, "/t.py", 1)


def test_uncaught_exceptions_are_the_one_filter() -> None:
    rows = exception_answer({"filters": ["uncaught", "raised"]})["breakpoints"]
    assert [row["verified"] for row in rows] == [True, False]
    assert exception_answer({"filters": "x"}) == {"breakpoints": []}
