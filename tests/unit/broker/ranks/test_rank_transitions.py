"""Which state of a rank may follow which."""

from __future__ import annotations

import pytest

from dbg_broker.ranks.registry import RANK_MOVES, RankEvent, move_rank
from dbg_wire.errors import InvalidTransition
from dbg_wire.records.ranks import LIVE_STATES, RankState
from tests.conftest import Approved


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


def test_from_every_connected_state_a_rank_can_report_and_be_lost_and_leave() -> None:
    for state in LIVE_STATES:
        assert move_rank(state, RankEvent.STOPS) is RankState.STOPPED
        assert move_rank(state, RankEvent.CONNECTION_ENDS) is RankState.LOST
        assert move_rank(state, RankEvent.SAYS_GOODBYE) is RankState.EXITED


def test_silent_rank_is_not_lost_and_a_lost_rank_can_return() -> None:
    assert move_rank(RankState.STOPPED, RankEvent.FALLS_SILENT) is RankState.UNRESPONSIVE
    assert move_rank(RankState.LOST, RankEvent.STOPS) is RankState.STOPPED
    assert move_rank(RankState.LOST, RankEvent.IS_FOUND_DEAD) is RankState.EXITED


@pytest.mark.parametrize("event", [event for event in RankEvent if event is not RankEvent.CONNECTION_ENDS])
def test_exited_rank_has_no_transition(approved: Approved, event: RankEvent) -> None:
    with pytest.raises(InvalidTransition) as caught:
        move_rank(RankState.EXITED, event)
    approved(str(caught.value))
