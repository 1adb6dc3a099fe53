"""What an error offers to type is right where the error comes."""

from __future__ import annotations

import pytest

from dbg_client.core.choose import choose
from dbg_client.core.errors import (
    LostRank,
    NeverConnected,
    NotHeld,
    RankHeld,
    SlowBroker,
    why_not_stopped,
)
from dbg_command.targets import parse_target
from dbg_wire.errors import DbgError, NoSuchRank
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank

HELD = make_rank(7, state=RankState.HELD, reason=None)
RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)


@pytest.mark.parametrize(
    ("rank", "typed"),
    [
        (RUNNING, "6"),
        (HELD, "7"),
        (make_rank(7, state=RankState.HELD, where=None), "@?"),
        (make_rank(8, state=RankState.LOST), "job*/8"),
        (make_rank(8, state=RankState.EXITED, exit=1), "8"),
        (make_rank(8, state=RankState.UNRESPONSIVE, where=None), "8"),
    ],
)
def test_a_rank_that_is_not_stopped_says_what_works_in_its_state(
    approved: Approved, rank: RankInfo, typed: str
) -> None:
    approved(str(why_not_stopped(rank, typed)))


def test_a_held_rank_without_a_place_is_not_said_to_be_shown() -> None:
    assert "shows where" not in str(RankHeld("gpu013:7 is held", "7", has_place=False))


def test_held_ranks_are_listed_where_there_are_some(approved: Approved) -> None:
    approved(str(NotHeld(["gpu013:5"], others=True)))
    approved(str(NotHeld(["gpu013:5"], others=False)), "2")
    approved(str(LostRank("gpu013:5")), "3")


def test_a_rank_of_the_job_that_has_not_connected_is_told_from_one_that_is_not_of_it() -> None:
    known = [make_rank(0, world_size=4), make_rank(1, world_size=4)]
    for typed, said in (
        ("3", "rank 3 of 4711.0 has not connected, 2 of 4 ranks have; `dbg-attach wait 3` waits until it stops"),
        (
            "2-9",
            (
                "ranks 2-3 of 4711.0 have not connected, 2 of 4 ranks have; "
                "`dbg-attach wait 2-9` waits until one of them stops"
            ),
        ),
    ):
        with pytest.raises(NeverConnected) as caught:
            choose(parse_target(typed), known)
        assert (str(caught.value), caught.value.exit_status) == (said, 3)
    for typed in ("9", "gpu014:3", "held"):
        with pytest.raises(NoSuchRank) as other:
            choose(parse_target(typed), known)
        assert not isinstance(other.value, NeverConnected)


def test_a_broker_that_is_there_is_not_asked_for() -> None:
    error: DbgError = SlowBroker("wss://h:1", "no list within 10 s")
    assert error.exit_status == 4
    assert "a longer timeout" in str(error)
    assert "is `dbg-broker serve` running" not in str(error)


def test_the_target_that_an_error_repeats_can_be_typed() -> None:
    for typed in ("hang*/5", "*/5", "@?", "!5"):
        assert f"'{typed}'" in str(why_not_stopped(RUNNING, typed))
