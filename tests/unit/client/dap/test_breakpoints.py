"""What an IDE is told of breakpoints that many ranks have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.dap.breakpoints import NO_RANK, Breakpoints, asked_file, requested_breakpoints, shown
from dbg_client.dap.source import Paths
from dbg_wire.errors import BadInput
from dbg_wire.messages import Change, Kind, RankAnswer
from dbg_wire.records.inspection import BreakpointChanges, BreakpointSpec, BreakpointState
from dbg_wire.records.record import checked
from tests.conftest import Approved
from tests.support.answers import answered
from tests.support.rank_infos import rank
from tests.unit.client.dap.shown import threads
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink

RANKS = [rank(f"gpu0:{number}") for number in range(4)]


def state(asked: int = 5, line: int = 0, *, is_set: bool = True, problem: str = "") -> BreakpointState:
    """Return what a rank reports of a breakpoint."""
    return BreakpointState(file="/t.py", asked=asked, line=line or asked, is_set=is_set, problem=problem)


def displayed(*states: BreakpointState | str) -> dict[str, Any]:
    """Return what is shown of a breakpoint at line 5 of which the first ranks report these states."""
    return shown(5, {one.key: given for one, given in zip(RANKS, states, strict=False)}, RANKS)


def test_breakpoint_of_all_ranks_has_no_message() -> None:
    assert displayed(*[state(line=6)] * 4) == {"verified": True, "line": 6}
    assert "ranks 1-3" in displayed(state())["message"]


def test_ranks_without_the_breakpoint_are_named_with_the_reason() -> None:
    refused = state(is_set=False, problem="no such file")
    some = displayed(state(), "it runs an older release", refused, state(line=7))
    assert (some["verified"], some["line"]) == (True, 5)
    whys = ("not in rank 1: it runs an older release", "not in rank 2: no such file", "at line 7 in rank 3")
    assert some["message"].split("; ") == list(whys)


def test_common_problem_is_reported_without_ranks_and_hostile_text_is_escaped() -> None:
    all_of_them = displayed(*[state(is_set=False, problem="no \x1bline")] * 4)
    assert (all_of_them["verified"], all_of_them["message"]) == (False, "no \\x1bline")
    assert shown(5, {}, [])["message"] == NO_RANK


LATE = make_rank(3, stop=1)


def asking(*lines: int) -> dict[str, object]:
    return {"source": {"path": "/nowhere/t.py"}, "breakpoints": [{"line": line} for line in lines]}


async def test_only_removed_breakpoints_are_cleared_and_ids_stay() -> None:
    ok = RankAnswer(key=LATE.key, kind=Kind.VALUE, text="")
    link = ScriptedLink(*([answered(number, ok)] for number in range(3)))

    async with threads(link, [LATE]) as (_, _, window):
        breakpoints = Breakpoints(window, Paths())
        (first,) = (await breakpoints.set(asking(5)))["breakpoints"]
        again, added = (await breakpoints.set(asking(5, 9)))["breakpoints"]
        assert again["id"] == first["id"] != added["id"]
        await breakpoints.set(asking(9))
    requests = [asked.inquiry for asked in link.sent]
    assert [isinstance(one, BreakpointChanges) and [at.line for at in one.clear] for one in requests] == [[], [], [5]]


async def test_new_rank_gets_the_breakpoints_once_before_it_moves() -> None:
    refused = RankAnswer(key=LATE.key, kind=Kind.ERROR, text="not today")
    link = ScriptedLink([answered(0, refused)])

    async with threads(link, []) as (_, shown_ide, window):
        breakpoints = Breakpoints(window, Paths())
        (row,) = (await breakpoints.set(asking(7)))["breakpoints"]
        assert (row["verified"], row["message"]) == (False, NO_RANK)
        link.events.put_nowait(Change(rank=LATE))
        await window.switchboard.until(lambda: window.ranks or None)
        for _ in range(2):
            await breakpoints.reach(LATE)
        (event,) = shown_ide.named("breakpoint")
        assert (event["breakpoint"]["id"], event["breakpoint"]["message"]) == (row["id"], "not today")
    (asked,) = link.sent
    assert asked.inquiry == BreakpointChanges(set=(BreakpointSpec(file="/nowhere/t.py", line=7),))


def test_conditions_counts_and_log_messages_are_kept() -> None:
    arguments = {"breakpoints": [{"line": 3, "condition": " x > 1 ", "hitCondition": "5", "logMessage": "at {x} "}]}
    (spec,) = requested_breakpoints(arguments, "/t.py")
    assert spec == BreakpointSpec(file="/t.py", line=3, condition="x > 1", hits="5", log="at {x} ")


@pytest.mark.parametrize("field", ["condition", "hitCondition", "logMessage"])
def test_text_that_cannot_be_sent_is_an_error(approved: Approved, field: str) -> None:
    rows = requested_breakpoints({"breakpoints": [{"line": 3, field: "\ud800"}, {"line": 4}]}, "/t.py")
    assert isinstance(rows[0], str)
    approved(rows[0])
    assert rows[1] == BreakpointSpec(file="/t.py", line=4)


values = st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.booleans()
rows = st.dictionaries(st.sampled_from(["line", "condition", "hitCondition", "logMessage", "column"]), values)


@given(st.lists(rows | values, max_size=4))
def test_any_request_is_a_readable_breakpoint_or_an_error(given: list[object]) -> None:
    for one in requested_breakpoints({"breakpoints": given}, "/t.py"):
        if isinstance(one, str):
            assert one.isprintable()
        else:
            assert checked(BreakpointChanges(set=(one,))).set == (one,)


@pytest.mark.parametrize(
    "source", [None, {}, {"path": 5}, {"path": "train.py"}, {"path": "/a\nb"}, {"path": "C:\\x.py"}]
)
def test_a_file_that_ranks_cannot_have_is_refused(source: object) -> None:
    with pytest.raises(BadInput):
        asked_file({"source": source}, Paths())
