"""No token of others and no address takes all places for ranks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.net.places import FEW_RANKS, RankPlaces

JOB, HOST = b"a job's token", "10.0.0.1"


def fill(places: RankPlaces, token: bytes | None, address: str) -> int:
    """Take places until there is none, and return how many there were."""
    number = 0
    while not places.refusal(token, address):
        places.take(number, token, address)
        number += 1
    return number


def test_a_token_of_others_leaves_a_quarter_to_others() -> None:
    places = RankPlaces(1000)
    assert fill(places, JOB, HOST) == 750
    assert "750 ranks use this token already" in places.refusal(JOB, "10.0.0.2")
    assert places.refusal(b"another job's", "10.0.0.2") == places.refusal(None, HOST) == ""
    places.leave(0)
    assert places.refusal(JOB, HOST) == ""


def test_an_address_leaves_an_eighth_to_others_even_with_the_homes_own_token() -> None:
    places = RankPlaces(1000)
    assert fill(places, None, HOST) == 875
    assert "875 ranks come from 10.0.0.1 already" in places.refusal(None, HOST)
    assert places.refusal(None, "10.0.0.2") == ""


def test_a_small_broker_has_room_for_a_job_from_one_host() -> None:
    assert fill(RankPlaces(8), JOB, HOST) == FEW_RANKS


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, b"a", b"b"]), st.sampled_from(["x", "y"]))))
def test_what_has_left_takes_no_place(steps: list[tuple[int, bytes | None, str]]) -> None:
    places = RankPlaces(1000)
    for number, (_, token, address) in enumerate(steps):
        places.take(number, token, address)
    for number in range(len(steps)):
        places.leave(number)
        places.leave(number)
    assert fill(places, b"a", "x") == 750
