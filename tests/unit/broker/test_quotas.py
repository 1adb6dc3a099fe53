"""Rates are bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.relay import weights
from dbg_broker.timers import TokenBucket
from dbg_wire import limits
from dbg_wire.codec import Input, encode_data


def test_first_second_of_data_is_free() -> None:
    pace = TokenBucket(0.0, 1000)
    assert pace.spend(1000, 0.0) == 0.0
    assert pace.spend(500, 0.0) == 0.5
    assert pace.spend(500, 0.5) == 0.5


def test_single_keys_pass_as_fast_as_a_program_types_them() -> None:
    pace = TokenBucket(0.0, limits.MAX_INPUT_PER_SECOND)
    frame = len(encode_data(Input(session=1, stop=1, generation=1, offset=0, data=b"n")))
    waits = [pace.spend(frame + weights.KEYS, number / 5000) for number in range(20_000)]
    assert set(waits) == {0.0}


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 5000)), max_size=50))
def test_sender_that_waits_as_required_never_exceeds_the_rate(steps: list[tuple[float, int]]) -> None:
    pace, now, sent = TokenBucket(0.0, 1000), 0.0, 0
    for gap, size in steps:
        now += gap
        sent += size
        now += pace.spend(size, now)
        assert sent <= 1000 * (now + 1) + 1e-6 * (sent + 1)
