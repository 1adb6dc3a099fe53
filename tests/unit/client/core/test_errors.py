"""What an error offers to type is right where the error comes."""

from __future__ import annotations

import pytest

from dbg_client.core.choose import choose
from dbg_client.core.errors import (
    HeldBack,
    LostRank,
    NeedsTarget,
    NeverCame,
    NotHeld,
    SlowBroker,
    why_not_stopped,
)
from dbg_wire.errors import DbgError, NoSuchRank
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.selection import parse_target
from tests.unit.client.fake_broker import make_rank

HELD = make_rank(7, state=RankState.HELD, reason=None)
RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)


@pytest.mark.parametrize(
    ("action", "offers", "never"),
    [
        ("kill", "name the ranks to end, such as 5", "`"),
        ("screen", "name one rank, such as 5", "`"),
        ("release", "`held`", "stopped"),
        ("interrupt", "`running`", "stopped"),
        ("continue", "`stopped`", "held"),
        ("tmux", "up to 16 ranks", "`"),
        ("command", "`all`", "stopped"),
    ],
)
def test_an_action_without_a_target_names_ranks_that_it_makes_sense_for(action: str, offers: str, never: str) -> None:
    said = str(NeedsTarget(action))
    assert said.startswith(f"{action} needs a target; ")
    assert offers in said
    assert never not in said


@pytest.mark.parametrize(
    ("rank", "typed", "said"),
    [
        (RUNNING, "6", "gpu013:6 is running; `dbg-attach wait 6` waits"),
        (HELD, "7", "`dbg-attach release 7` lets it go on, and `dbg-attach 7` shows where it is"),
        (make_rank(7, state=RankState.HELD, where=None), "@?", "`dbg-attach release '@?'` lets it go on"),
        (make_rank(8, state=RankState.LOST), "job*/8", "`dbg-attach wait 'job*/8'` waits in case it comes back"),
        (make_rank(8, state=RankState.EXITED, exit=1), "8", "gpu013:8 has exited with status 1"),
        (make_rank(8, state=RankState.UNRESPONSIVE, where=None), "8", "`dbg-attach wait 8` waits"),
    ],
)
def test_a_rank_that_is_not_stopped_says_what_works_in_its_state(rank: RankInfo, typed: str, said: str) -> None:
    assert said in str(why_not_stopped(rank, typed))


def test_a_held_rank_without_a_place_is_not_said_to_be_shown() -> None:
    assert "shows where" not in str(HeldBack("gpu013:7 is held", "7", has_place=False))


def test_held_ranks_are_listed_where_there_are_some() -> None:
    assert "`dbg-attach list held` shows" in str(NotHeld(["gpu013:5"], others=True))
    assert str(NotHeld(["gpu013:5"], others=False)) == "gpu013:5 is not held, waiting for others; no rank is"
    assert str(LostRank("gpu013:5")).endswith("`dbg-attach wait gpu013:5` waits in case it comes back")


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
        with pytest.raises(NeverCame) as caught:
            choose(parse_target(typed), known)
        assert (str(caught.value), caught.value.exit_status) == (said, 3)
    for typed in ("9", "gpu014:3", "held"):
        with pytest.raises(NoSuchRank) as other:
            choose(parse_target(typed), known)
        assert not isinstance(other.value, NeverCame)


def test_a_broker_that_is_there_is_not_asked_for() -> None:
    error: DbgError = SlowBroker("wss://h:1", "it did not list its ranks within 10 s")
    assert error.exit_status == 4
    assert "a longer timeout" in str(error)
    assert "is `dbg-broker serve` running" not in str(error)


def test_the_target_that_an_error_repeats_can_be_typed() -> None:
    for typed in ("hang*/5", "*/5", "@?", "!5"):
        assert f"'{typed}'" in str(why_not_stopped(RUNNING, typed))
