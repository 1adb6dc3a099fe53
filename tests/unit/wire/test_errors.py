"""Every error is one sentence of parts, and foreign text in it can't act on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire import errors
from dbg_wire.errors import AmbiguousTarget, DbgError, IllegalMove, NoSuchRank, printable
from dbg_wire.limits import notice_seconds
from dbg_wire.records.ranks import LIVE_STATES, RankState
from dbg_wire.states import RANK_MOVES, STOP_MOVES, RankEvent, StopEvent, StopPhase, move_rank, move_stop
from tests.conftest import Approved

HOSTILE = "gpu\x1b[2J\r\n\x07:5\u202e"


@given(st.text(max_size=400))
def test_printable_text_has_no_control_characters_and_a_bound(text: str) -> None:
    shown = printable(text, 50)
    assert shown.isprintable()
    assert len(shown) <= 50 + len("…")


def test_printable_leaves_readable_text_alone_and_marks_a_cut() -> None:
    assert printable("gpu013:5 größer") == "gpu013:5 größer"
    assert printable("x" * 300, 10) == "x" * 10 + "…"
    assert printable("\x1b" * 5, 10) == r"\x1b\x1b" + "…"
    assert printable("123456\x1b", 10) == r"123456\x1b"


SAMPLES: list[DbgError] = [
    errors.BadTarget(f"target '{printable(HOSTILE)}' names no rank", "write host:rank"),
    AmbiguousTarget(HOSTILE, [f"job{i}/{HOSTILE}" for i in range(20)]),
    NoSuchRank(HOSTILE, 3),
    NoSuchRank(HOSTILE, 0),
    NoSuchRank(HOSTILE, 3, HOSTILE),
    NoSuchRank(HOSTILE, 0, exited=18),
    errors.NoBroker(),
    errors.BrokerUnreachable(HOSTILE, HOSTILE),
    errors.HungUp(HOSTILE),
    errors.WrongHost("the broker listens elsewhere"),
    errors.Refused(HOSTILE, HOSTILE),
    errors.WrongToken(HOSTILE, HOSTILE),
    errors.WrongCertificate(HOSTILE, HOSTILE),
    errors.WrongVersion(HOSTILE, HOSTILE),
    errors.PeerError(HOSTILE),
    errors.IllegalMove("a rank", "exited", "runs"),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_is_one_printable_line(error: DbgError) -> None:
    assert str(error).isprintable()
    assert str(error)


def test_candidates_are_listed_up_to_a_bound(approved: Approved) -> None:
    approved(str(AmbiguousTarget("5", ["a/h:5", "b/h:5"])))
    assert "and 12 more" in str(SAMPLES[1])


def test_exit_statuses_are_the_published_ones() -> None:
    statuses = {type(error).__name__: error.exit_status for error in SAMPLES}
    assert statuses["BadTarget"] == statuses["AmbiguousTarget"] == 2
    assert statuses["NoSuchRank"] == 3
    assert statuses["NoBroker"] == statuses["BrokerUnreachable"] == statuses["WrongHost"] == 4
    assert {statuses[name] for name in ("Refused", "WrongToken", "WrongCertificate", "WrongVersion")} == {5}


@pytest.mark.parametrize(("lease", "notice"), [(28800.0, 300.0), (3000.0, 300.0), (600.0, 60.0), (1.0, 0.1)])
def test_how_long_before_its_end(lease: float, notice: float) -> None:
    assert notice_seconds(lease) == pytest.approx(notice)


def reachable(table: object, start: object) -> set[object]:
    moves = table if isinstance(table, dict) else {}
    seen, waiting = {start}, [start]
    while waiting:
        for following in moves.get(waiting.pop(), {}).values():
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return seen


def test_every_state_is_reached_and_has_a_row() -> None:
    assert reachable(RANK_MOVES, None) == {None, *RankState}
    assert set(RANK_MOVES) == {None, *RankState}
    assert reachable(STOP_MOVES, StopPhase.NONE) == set(StopPhase)


def test_from_every_connected_state_a_rank_can_report_and_be_lost_and_leave() -> None:
    for state in LIVE_STATES:
        assert move_rank(state, RankEvent.STOPS) is RankState.STOPPED
        assert move_rank(state, RankEvent.CONNECTION_ENDS) is RankState.LOST
        assert move_rank(state, RankEvent.SAYS_GOODBYE) is RankState.EXITED


def test_silence_never_loses_a_rank_and_a_lost_one_comes_back() -> None:
    assert move_rank(RankState.STOPPED, RankEvent.FALLS_SILENT) is RankState.UNRESPONSIVE
    assert move_rank(RankState.LOST, RankEvent.STOPS) is RankState.STOPPED
    assert move_rank(RankState.LOST, RankEvent.IS_FOUND_DEAD) is RankState.EXITED


@pytest.mark.parametrize("event", [event for event in RankEvent if event is not RankEvent.CONNECTION_ENDS])
def test_an_exited_rank_moves_no_more(approved: Approved, event: RankEvent) -> None:
    with pytest.raises(IllegalMove) as caught:
        move_rank(RankState.EXITED, event)
    approved(str(caught.value))


def test_every_stop_can_end(approved: Approved) -> None:
    for phase in StopPhase:
        if phase is not StopPhase.NONE:
            assert move_stop(phase, StopEvent.ENDS) is StopPhase.NONE
    with pytest.raises(IllegalMove) as caught:
        move_stop(StopPhase.NONE, StopEvent.ENDS)
    approved(str(caught.value))
