"""Whom a verb fits, and which ranks a list has."""

from __future__ import annotations

import pytest

from dbg_client.questions.verbs import CONTINUE, INTERRUPT, KILL, RELEASE, SCREEN, Order, list_ranks
from dbg_wire.records.ranks import RankState
from tests.unit.client.fake_broker import make_rank

EVERYBODY = [make_rank(number, state=state) for number, state in enumerate(RankState)]


@pytest.mark.parametrize(
    ("order", "states"),
    [
        (CONTINUE, {"stopped", "unresponsive"}),
        (RELEASE, {"held"}),
        (INTERRUPT, {"running", "unresponsive"}),
        (KILL, {"running", "stopped", "held", "unresponsive"}),
        (SCREEN, {"running", "stopped", "held", "unresponsive"}),
    ],
    ids=lambda case: case.name if isinstance(case, Order) else "",
)
def test_an_order_fits_ranks_by_their_state(order: Order, states: set[str]) -> None:
    assert {rank.state.value for rank in order.those(EVERYBODY)} == states


def test_a_list_has_ranks_in_their_order() -> None:
    ranks = [make_rank(number) for number in (2, 0, 1)]

    assert [rank.rank for rank in list_ranks(ranks, None, ()).shown] == [0, 1, 2]
    assert list_ranks([], None, ()).table(color=False, fold=True) == ""
