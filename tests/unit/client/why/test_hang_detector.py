from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.why.hang_detector import SLACK_SECONDS, HangDetector
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.messages.declared import AnyRow
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, EvidenceRecord, GroupSeen
from dbg_wire.records.ranks import Place

LIMIT = 30.0


def answer(key: str = "a", line: int = 1, age: float | None = None, rows: tuple[AnyRow, ...] = ()) -> RankAnswer:
    frames = (Place(file="/home/me/train.py", line=line, function="step"),)
    return RankAnswer(key=key, kind=Kind.VALUE, text="running", frames=frames, age=age, at_least=True, rows=rows)


def silent(key: str = "a") -> RankAnswer:
    return RankAnswer(key=key, kind=Kind.SILENT, text="no answer in 10 s")


def waiting(sequence: int = 7, state: CollectiveState = CollectiveState.STARTED) -> tuple[EvidenceRecord, ...]:
    group = GroupSeen(library="torch", name="0", title="dp_0", enqueued=sequence)
    return group, CollectiveSeen(group="0", name="all_reduce", state=state, sequence=sequence)


DetailLevel = tuple[float, list[RankAnswer]]


def at(times: Sequence[float], *ranks: Callable[[float], RankAnswer]) -> list[DetailLevel]:
    """Return looks at ranks whose answers depend on the time."""
    return [(now, [rank(now) for rank in ranks]) for now in times]


def busy(_: float) -> RankAnswer:
    return answer("a", age=0.01)


ENDED = waiting(state=CollectiveState.COMPLETED)
ONE = [answer("a", rows=waiting())]
TWO = [*ONE, answer("b")]
GONE = RankAnswer(key="a", kind=Kind.LOST, text="no answer")
THRICE = (0.0, 30.0, 60.0)


@pytest.mark.parametrize(
    ("snapshots", "reported"),
    [
        pytest.param([], [], id="nobody looks"),
        pytest.param([(0, []), (100, [])], [], id="no rank"),
        pytest.param(at(THRICE, busy, lambda now: answer("b", age=now)), [], id="a thread uses the processor"),
        pytest.param(
            at(THRICE, busy, lambda _: answer("b", rows=waiting())), [30], id="it spins and another rank waits"
        ),
        pytest.param(
            at(THRICE, busy, lambda now: answer("b", age=now, rows=ENDED)), [], id="it spins and no rank waits"
        ),
        pytest.param(
            [(now, [answer(rows=waiting(number))]) for now, number in ((0, 7), (30, 8), (60, 8))],
            [60],
            id="another collective is a move",
        ),
        pytest.param(
            [(now, [answer(age=age)]) for now, age in ((0, 0), (30, 30), (40, 1), (60, 21), (70, 31))],
            [30, 70],
            id="a rank has come back to its place",
        ),
        pytest.param(
            [(0, [answer(age=0)]), (30, [answer(age=30)]), (60, [silent()]), (90, [silent()])],
            [30],
            id="falling silent is no move",
        ),
        pytest.param([(0, [answer()]), (10, [silent()]), (30, [silent()])], [30], id="a silent rank stands"),
        pytest.param([(0, [silent()]), (30, [silent()])], [30], id="a rank that never answered stands"),
        pytest.param([(0, [GONE]), (30, [GONE])], [30], id="a lost rank stands"),
        pytest.param(
            [(0, ONE), (30, ONE), (60, TWO), (90, TWO), (120, ONE), (150, ONE)],
            [30, 90, 120],
            id="ranks that come and go",
        ),
    ],
)
def test_each_standstill_is_reported_once(snapshots: list[DetailLevel], reported: list[float]) -> None:
    standstill = HangDetector(LIMIT)
    assert [now for now, answers in snapshots if standstill.look(answers, now)] == reported


def test_a_stop_restarts_the_time() -> None:
    standstill = HangDetector(LIMIT)
    assert not standstill.look([answer(age=0)], 0)
    standstill.start_again()
    assert not standstill.look([answer(age=30)], 30)
    assert standstill.look([answer(age=60)], 60)
    standstill.start_again()
    assert not standstill.look([answer(age=80)], 80)
    assert standstill.look([answer(age=110)], 110)


@given(
    st.lists(
        st.tuples(st.floats(0.5, 40), st.lists(st.integers(1, 2), min_size=2, max_size=2)), min_size=1, max_size=12
    )
)
def test_a_hang_is_reported_once_and_not_before_the_time_limit(
    steps: list[tuple[float, list[int]]],
) -> None:
    standstill, now, last_move, is_reported = HangDetector(LIMIT), 0.0, 0.0, False
    places: list[int] = []
    for elapsed, lines in steps:
        now += elapsed
        if lines != places:
            last_move, is_reported, places = now, False, lines
        answers = [answer(f"{number}", line, age=now, rows=waiting()) for number, line in enumerate(lines)]
        expected = not is_reported and now - last_move >= LIMIT - SLACK_SECONDS
        assert standstill.look(answers, now) is expected
        is_reported = is_reported or expected
