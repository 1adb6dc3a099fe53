"""The stops of a job as a table."""

from __future__ import annotations

from dbg_client.views.answers import RankStops, show_stops
from dbg_wire.records.breakpoints import StopState
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank

STOP = "train.py:38, step == 3"


def state(*, armed: bool = True, hits: int = 0, line: int | None = 38, problem: str = "") -> StopState:
    return StopState(stop=STOP, line=line if armed else None, armed=armed, hits=hits, problem=problem)


def table(*states: StopState) -> list[str]:
    said = [RankStops(make_rank(number), [one]) for number, one in enumerate(states)]
    return show_stops(said).splitlines()


def test_all_have_it_and_none_was_there() -> None:
    assert table(state(), state()) == [STOP, "  armed in all ranks", "  hits: none"]
    assert table(state()) == [STOP, "  armed in rank 0", "  hits: none"]


def test_who_has_not_loaded_it() -> None:
    assert table(*[state()] * 3, state(armed=False)) == [
        STOP,
        "  armed in 3 of 4 ranks (0-2)",
        "  not loaded yet in 1 of 4 ranks (3)",
        "  hits: none",
    ]


def test_a_line_that_was_moved_is_named() -> None:
    assert table(state(line=40), state())[1:3] == [
        "  armed at line 40 in 1 of 2 ranks (0)",
        "  armed in 1 of 2 ranks (1)",
    ]


def test_hits_are_counted_by_rank() -> None:
    assert table(state(hits=2), state(hits=2), state(), state(hits=1))[-1] == (
        "  hits: 2 in 2 of 4 ranks (0-1); 1 in 1 of 4 ranks (3); none in 1 of 4 ranks (2)"
    )


def test_what_keeps_a_stop_from_being_armed_is_told_without_control_characters() -> None:
    assert table(state(armed=False, problem="/a.py: no code\x1b"))[1] == "  /a.py: no code\\x1b, in rank 0"


def test_a_function_has_no_line() -> None:
    shown = show_stops([RankStops(make_rank(0), [StopState(stop="model:Net.forward", line=None, armed=True, hits=0)])])
    assert shown.splitlines()[:2] == ["model:Net.forward", "  armed in rank 0"]


def test_ranks_that_say_nothing_are_named() -> None:
    said = [
        RankStops(make_rank(0), [state()]),
        RankStops(make_rank(1), why="older\x1b"),
        RankStops(make_rank(2), why="x"),
    ]
    assert show_stops(said).splitlines()[-2:] == ["rank 1: older\\x1b", "rank 2: x"]


def test_a_job_without_stops_is_told(approved: Approved) -> None:
    approved(show_stops([RankStops(make_rank(0))]))
    assert show_stops([RankStops(make_rank(0), why="lost")]) == "rank 0: lost\n"
