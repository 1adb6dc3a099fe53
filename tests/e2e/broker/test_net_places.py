"""No token of others and no address takes all places; who waits for the broker is not closed for newcomers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.net.places import (
    RankPlaces,
)
from tests.unit.broker.net.test_places import fill


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, b"a", b"b"]), st.sampled_from(["x", "y"]))))
def test_what_has_left_takes_no_place(steps: list[tuple[int, bytes | None, str]]) -> None:
    places = RankPlaces(1000)
    for number, (_, token, address) in enumerate(steps):
        places.take(number, token, address)
    for number in range(len(steps)):
        places.leave(number)
        places.leave(number)
    assert fill(places, b"a", "x") == 750
