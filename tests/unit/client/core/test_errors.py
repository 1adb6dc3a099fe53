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
def test_error_for_a_rank_names_the_commands_for_its_state(approved: Approved, rank: RankInfo, typed: str) -> None:
    approved(str(why_not_stopped(rank, typed)))


def test_error_for_a_held_rank_without_a_place_omits_where() -> None:
    assert "shows where" not in str(RankHeld("gpu013:7 is held", "7", has_place=False))


def test_error_lists_held_ranks_if_there_are_any(approved: Approved) -> None:
    approved(str(NotHeld(["gpu013:5"], others=True)))
    approved(str(NotHeld(["gpu013:5"], others=False)), "2")
    approved(str(LostRank("gpu013:5")), "3")


def test_unconnected_rank_is_distinguished_from_an_unknown_one() -> None:
    known = [make_rank(0, world_size=4), make_rank(1, world_size=4)]
    for typed, message in (
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
        assert (str(caught.value), caught.value.exit_status) == (message, 3)
    for typed in ("9", "gpu014:3", "held"):
        with pytest.raises(NoSuchRank) as other:
            choose(parse_target(typed), known)
        assert not isinstance(other.value, NeverConnected)


def test_error_of_a_slow_broker_does_not_ask_whether_it_is_running() -> None:
    error: DbgError = SlowBroker("wss://h:1", "no list within 10 s")
    assert error.exit_status == 4
    assert "a longer timeout" in str(error)
    assert "is `dbg-broker serve` running" not in str(error)


def test_target_in_an_error_can_be_typed() -> None:
    for typed in ("hang*/5", "*/5", "@?", "!5"):
        assert f"'{typed}'" in str(why_not_stopped(RUNNING, typed))
