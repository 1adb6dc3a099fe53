from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_client.core.choose import Missing, MissingRanks, RollCall
from dbg_client.views.ages import Age, show_age, show_wait, with_age
from dbg_client.views.groups import group_answers, merge_near, read_floats, summary
from dbg_client.views.list import first_limits, show_table, without_limit
from dbg_client.views.naming import absent_only, absent_rows, missing_documents, missing_in_answer
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (8.9, "8 s"),
        (252.0, "4 min 12 s"),
        (240.0, "4 min"),
        (7500.0, "2 h 5 min"),
        (273600.0, "3 d 4 h"),
        (-1.0, "0 s"),
    ],
)
def test_an_age_is_said_in_its_two_largest_units(seconds: float, shown: str) -> None:
    assert show_age(seconds) == shown


@pytest.mark.parametrize(
    ("state", "ages"),
    [
        ("running", [Age(252.0)]),
        ("running", [Age(8.2, True), Age(8.7, True)]),
        ("running", [Age(20.0, True), Age()]),
        ("stopped", [Age(252.0)]),
        ("held", [Age(5.0), Age(60.0)]),
        ("waits in barrier for 1 stopped rank", [Age(9.0, True)]),
        ("running", [Age()]),
        ("stopped", [Age(0.4)]),
        ("stuck for 12 s", [Age(12.0)]),
    ],
)
def test_a_state_tells_what_is_known_of_the_age(approved: Approved, state: str, ages: list[Age]) -> None:
    approved(with_age(state, ages))


NOW = 1_760_000_100.0
WAITS = "gloo times out in"


def limited(number: int, minutes: int, before: str = "", **changes: object) -> RankInfo:
    limit = f"{WAITS} {minutes} min"
    detail = f"{before}; {limit}" if before else limit
    return make_rank(number, detail=detail, limit=limit, limit_seconds=minutes * 60.0, **changes)


def test_the_first_time_limit_stands_once_below_the_list_and_on_no_row() -> None:
    ranks = [limited(0, 29), limited(1, 28), limited(2, 28), make_rank(3)]

    *rows, foot = show_table(ranks, NOW, color=False).splitlines()

    assert foot == first_limits(ranks)[0]
    assert len(rows) == 5
    assert not any(WAITS in row for row in rows)


def test_each_job_has_its_own_first_time_limit(approved: Approved) -> None:
    ranks = [limited(0, 9, job="b"), limited(0, 5, job="a"), limited(1, 4, job="a")]

    approved("\n".join(first_limits(ranks)))
    assert first_limits([limited(5, 3), make_rank(6)]) == [f"{make_rank(5).address}: {WAITS} 3 min"]
    assert first_limits([make_rank(5)]) == []


def test_the_exception_of_a_crash_stays_on_its_row() -> None:
    assert without_limit(limited(0, 9, before="ValueError: bad; loss")) == "ValueError: bad; loss"
    assert without_limit(make_rank(0, detail=f"{WAITS} 9 min")) == f"{WAITS} 9 min"


unhurried = settings(deadline=None)


@pytest.mark.parametrize(
    ("first", "second", "tolerance", "near"),
    [
        ("0.25", "0.2500001", 1e-6, True),
        ("0.25", "0.26", 1e-6, False),
        ("1000000.0", "1000000.5", 1e-6, True),
        ("1e-9", "2e-9", 1e-6, True),
        ("[0.25, 1.0]", "[0.25, 1.0000001]", 1e-6, True),
        ("[0.25, 1.0]", "[0.25, 1.1]", 1e-6, False),
        ("tensor(0.25)", "tensor(0.2500001)", 1e-6, True),
        ("(1, 0.5)", "(2, 0.5000001)", 1e-6, False),
        ("0.5", "-0.5", 1e-6, False),
        ("tensor scalar float32 cpu: 0.25", "tensor scalar float32 cpu: 0.2500001", 1e-6, True),
        ("(1, array 2 float64: [0.5, 1.5])", "(1, array 2 float64: [0.5, 1.5000001])", 1e-6, True),
        ("(0.5, array 100 float64)", "(0.5000001, array 100 float64)", 1e-6, False),
        ("[tensor 8x4 float32 cuda:3, 0.5]", "[tensor 8x4 float32 cuda:3, 0.5000001]", 1e-6, False),
        ("<A at 0x7f01 0.5>", "<A at 0x7f02 0.5000001>", 1e-6, True),
        ("(nan, 0.5)", "(nan, 0.5000001)", 1e-6, True),
        ("nan", "0.5", 1e6, False),
        ("inf", "1e300", 1e6, False),
        ("v1.5.2", "v1.5.3", 1e6, False),
        ("x0.5", "x0.6", 1.0, False),
    ],
)
def test_floats_alone_may_differ(first: str, second: str, tolerance: float, near: bool) -> None:
    assert (merge_near([first, second], tolerance) == [0, 0]) is near


@pytest.mark.parametrize(
    "text", ["tensor([0.1, ..., 0.2])", "0.1 … 0.2", "0.1 (values not compared)", "tensor f32[8,4096]", "3"]
)
def test_a_text_that_is_not_the_value_is_near_to_nothing(text: str) -> None:
    assert read_floats(text) is None
    assert merge_near([text, text], 1.0) == [0, 1]


def test_values_whose_texts_show_no_difference_are_not_near() -> None:
    assert merge_near(["Net(0.5)", "Net(0.50)"], 0.1) == [0, 1]


def test_sets_do_not_grow_along_chains() -> None:
    assert merge_near(["0.0", "0.09", "0.18", "0.05"], 0.1) == [0, 0, 2, 0]


@unhurried
@given(st.floats(-1e6, 1e6), st.floats(0, 1e-3), st.floats(1e-6, 1.0))
def test_the_tolerance_is_relative_above_1_and_absolute_below(value: float, off: float, tolerance: float) -> None:
    other = value + off
    allowed = tolerance * max(1.0, abs(value), abs(other))
    if value == other or abs(abs(value - other) - allowed) < 1e-12:
        return

    assert (merge_near([repr(value), repr(other)], tolerance) == [0, 0]) is (abs(value - other) < allowed)


@unhurried
@given(st.text(alphabet="0123456789.eE+-infa x()[],", max_size=30))
def test_any_text_is_read(text: str) -> None:
    floats = read_floats(text)
    if floats is not None:
        assert len(floats.floats) == floats.rest.count("~")


WAITING = make_rank(6, state=RankState.RUNNING, where=None, reason=None, waits_in="all_reduce")


@pytest.mark.parametrize(
    ("collective", "stopped", "held", "expected"),
    [
        ("all_reduce", 3, 0, "waits in all_reduce for 3 stopped ranks"),
        ("barrier", 0, 1, "waits in barrier for 1 held rank"),
        ("barrier", 1, 2, "waits in barrier for 1 stopped and 2 held ranks"),
        ("barrier", 0, 0, ""),
        ("", 3, 0, ""),
    ],
)
def test_a_rank_in_a_collective_waits_for_those_that_stand(
    collective: str, stopped: int, held: int, expected: str
) -> None:
    assert show_wait(collective, stopped, held) == expected


def test_a_row_of_the_list_says_so_and_counts_the_ranks_of_its_own_job_alone() -> None:
    known = [WAITING, *(make_rank(number) for number in range(3)), make_rank(0, job="other", key="other")]

    (row,) = show_table([WAITING], 0.0, color=False, known=known).splitlines()[1:]

    assert " waits in all_reduce for 3 stopped ranks " in f"{row} "
    assert " running" in show_table([WAITING], 0.0, color=False)


NOW_MISSING = 1000.0


def died(*numbers: int, text: str = "killed by SIGSEGV", job: str = "A") -> MissingRanks:
    return MissingRanks(job=job, numbers=numbers, state=Missing.EXITED, text=text, since=NOW_MISSING - 3)


def never(*numbers: int, job: str = "A") -> MissingRanks:
    return MissingRanks(job=job, numbers=numbers, state=Missing.ABSENT, text="never came")


def call_missing(*missing: MissingRanks, connected: int = 3, world: int | None = 4) -> RollCall:
    return RollCall(job=missing[0].job, world=world, connected=connected, missing=missing)


def head(*calls: RollCall, answers: int = 3, running: int = 0, several_jobs: bool = False) -> str:
    said = [
        (make_rank(number), RankAnswer(key="", kind=kind, text="1", digest="1"))
        for number, kind in enumerate([Kind.VALUE] * answers + [Kind.RUNNING] * running)
    ]
    return summary("loss", group_answers(said), missing_in_answer(calls, NOW_MISSING, several_jobs=several_jobs))


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([], id="nobody"),
        pytest.param([call_missing(died(2))], id="a dead one"),
        pytest.param([call_missing(died(1, 3))], id="dead ones of one cause"),
        pytest.param([call_missing(died(0, text="exited with status 1"), died(2, text="died"))], id="two causes"),
        pytest.param([call_missing(never(2, 3), connected=2)], id="some never came"),
        pytest.param([call_missing(died(1), never(3))], id="dead and never came"),
        pytest.param([call_missing(never(3), connected=1)], id="one never came"),
    ],
)
def test_the_head_of_an_answer_says_who_is_missing(approved: Approved, calls: list[RollCall]) -> None:
    approved(head(*calls))


def test_json_and_the_rows_below_a_list() -> None:
    calls = [call_missing(died(2), never(0, 1)), call_missing(died(5, job="B"))]

    assert missing_documents(calls) == [
        {"job": "A", "ranks": "2", "state": "exited", "text": "killed by SIGSEGV", "since": NOW_MISSING - 3},
        {"job": "A", "ranks": "0-1", "state": "absent", "text": "never came", "since": None},
        {"job": "B", "ranks": "5", "state": "exited", "text": "killed by SIGSEGV", "since": NOW_MISSING - 3},
    ]
    assert [one.missing for one in absent_only(calls)] == [(never(0, 1),)]
    assert absent_rows(calls, several_jobs=False) == "0-1 never connected\n"
    assert absent_rows(calls, several_jobs=True) == "A/0-1 never connected\n"
