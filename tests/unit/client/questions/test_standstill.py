from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.questions.standstill import LEAD_SECONDS, SCHEDULER, SLACK_SECONDS, Standstill, first_end, look_every
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


def told(*looks: tuple[float, list[RankAnswer]]) -> list[float]:
    """Return the times of the looks at which a standstill was told."""
    standstill = Standstill(LIMIT)
    return [now for now, answers in looks if standstill.look(answers, now)]


def test_it_is_told_once_when_no_rank_has_moved_for_the_time() -> None:
    def both(age: float | None) -> list[RankAnswer]:
        return [answer("a", age=age), answer("b", 2, age=age)]

    assert told((0, both(None)), (10, both(10)), (20, both(20)), (30, both(30)), (40, both(40))) == [30]


def test_one_rank_that_moves_is_enough_for_nothing_to_be_told() -> None:
    looks = [(now, [answer("a", age=now), answer("b", line=int(now))]) for now in (0.0, 10.0, 20.0, 30.0, 90.0)]
    assert told(*looks) == []


def test_it_is_told_again_only_after_a_rank_has_moved() -> None:
    there = [(now, [answer(age=now)]) for now in (0.0, 30.0, 60.0)]
    moved = [(now, [answer(line=2, age=now - 70)]) for now in (70.0, 100.0, 130.0)]
    assert told(*there, *moved) == [30, 100]


def test_a_thread_that_uses_processor_time_moves_unless_a_rank_waits_in_a_collective() -> None:
    spins = [(now, [answer("a", age=0.01), answer("b", age=now)]) for now in (0.0, 30.0, 60.0)]
    assert told(*spins) == []
    beside = [(now, [answer("a", age=0.01), answer("b", age=None, rows=waiting())]) for now in (0.0, 30.0, 60.0)]
    assert told(*beside) == [30]
    after = [
        (now, [answer("a", age=0.01), answer("b", age=now, rows=waiting(state=CollectiveState.COMPLETED))])
        for now in (0.0, 30.0, 60.0)
    ]
    assert told(*after) == []


def test_a_number_of_a_collective_that_changes_is_a_move() -> None:
    assert told((0, [answer(rows=waiting(7))]), (30, [answer(rows=waiting(8))]), (60, [answer(rows=waiting(8))])) == [
        60
    ]


def test_a_rank_that_has_come_back_to_its_place_has_moved() -> None:
    looks = [(now, [answer(age=age)]) for now, age in ((0.0, 0), (30.0, 30), (40.0, 1), (60.0, 21), (70.0, 31))]
    assert told(*looks) == [30, 70]


def test_a_rank_that_falls_silent_has_not_moved_by_that() -> None:
    looks = [(0.0, [answer(age=0)]), (30.0, [answer(age=30)]), (60.0, [silent()]), (90.0, [silent()])]
    assert told(*looks) == [30]
    assert told((0, [answer()]), (10, [silent()]), (30, [silent()])) == [30]


def test_ranks_that_come_and_go_are_moves() -> None:
    one = [answer("a", rows=waiting())]
    two = [*one, answer("b")]
    assert told((0, one), (30, one), (60, two), (90, two), (120, one), (150, one)) == [30, 90, 120]


def test_after_a_stop_the_time_begins_anew() -> None:
    standstill = Standstill(LIMIT)
    assert not standstill.look([answer(age=0)], 0)
    standstill.begin_anew()
    assert not standstill.look([answer(age=30)], 30)
    assert standstill.look([answer(age=60)], 60)
    standstill.begin_anew()
    assert not standstill.look([answer(age=80)], 80)
    assert standstill.look([answer(age=110)], 110)


def test_no_rank_at_all_does_not_stand_still() -> None:
    assert told((0, []), (100, [])) == []


@given(
    st.lists(
        st.tuples(st.floats(0.5, 40), st.lists(st.integers(1, 2), min_size=2, max_size=2)), min_size=1, max_size=12
    )
)
def test_nothing_is_told_within_the_time_after_a_move_nor_twice_without_one(
    steps: list[tuple[float, list[int]]],
) -> None:
    standstill, now, last_move, is_told = Standstill(LIMIT), 0.0, 0.0, False
    places: list[int] = []
    for elapsed, lines in steps:
        now += elapsed
        if lines != places:
            last_move, is_told, places = now, False, lines
        answers = [answer(f"{number}", line, age=now, rows=waiting()) for number, line in enumerate(lines)]
        expected = not is_told and now - last_move >= LIMIT - SLACK_SECONDS
        assert standstill.look(answers, now) is expected
        is_told = is_told or expected


@pytest.mark.parametrize("kind", [Kind.SILENT, Kind.LOST])
def test_a_rank_that_never_answers_counts_as_standing(kind: Kind) -> None:
    gone = RankAnswer(key="a", kind=kind, text="no answer")
    assert told((0, [gone]), (30, [gone])) == [30]


# ------------------------------------------------------------------------------------------- who ends the job otherwise


def in_collective(age: float | None, timeout: float | None) -> RankAnswer:
    """Return a rank that waits in a collective with this time limit."""
    call = CollectiveSeen(
        group="0", name="all_reduce", state=CollectiveState.STARTED, sequence=7, age=age, timeout=timeout
    )
    return answer(rows=(call,))


def test_a_collective_is_due_a_minute_before_its_time_limit() -> None:
    end = first_end([in_collective(100.0, 600.0), in_collective(90.0, 600.0), answer("b")], None)
    assert end is not None
    assert (end.who, end.left, end.due) == ("all_reduce", 500.0, 500.0 - LEAD_SECONDS)


def test_of_a_short_time_limit_half_is_left() -> None:
    end = first_end([in_collective(11.0, 20.0)], None)
    assert end is not None
    assert (end.left, end.due, end.enough) == (9.0, -1.0, 5.0)


def test_the_scheduler_may_come_first() -> None:
    end = first_end([in_collective(100.0, 600.0)], 300.0)
    assert end is not None
    assert (end.who, end.left, end.due) == (SCHEDULER, 300.0, 300.0 - LEAD_SECONDS)


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [answer()],
        [in_collective(None, 600.0)],
        [in_collective(100.0, None)],
        [in_collective(700.0, 600.0)],
        [answer(rows=waiting(state=CollectiveState.COMPLETED))],
    ],
)
def test_where_no_end_is_known_there_is_none(answers: list[RankAnswer]) -> None:
    assert first_end(answers, None) is None
    assert first_end(answers, -5.0) is None


def test_shortly_before_an_end_less_time_without_a_move_is_enough() -> None:
    standstill = Standstill(LIMIT)
    assert not standstill.look([answer(age=0)], 0)
    assert not standstill.look([answer(age=6)], 6)
    assert standstill.look([answer(age=12)], 12, enough=10.0)
    assert standstill.is_told
    assert not standstill.look([answer(line=2, age=0)], 14, enough=10.0)
    assert not standstill.is_told


def test_looks_are_close_enough_for_the_shortest_time_limit() -> None:
    assert look_every([in_collective(1.0, 600.0), in_collective(1.0, 20.0)]) == 1.0
    assert look_every([answer()]) == float("inf")
