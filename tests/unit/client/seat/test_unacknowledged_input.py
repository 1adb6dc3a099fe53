"""Keys of a terminal that its rank has not acknowledged yet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_client.seat.unacknowledged_input import UnacknowledgedInput
from dbg_wire.limits import MAX_INPUT_PENDING


def unsettled_keys(generation: int = 1, settled: int = 0) -> UnacknowledgedInput:
    new = UnacknowledgedInput()
    new.start(generation, settled)
    return new


def test_a_discard_returns_the_keys_it_took() -> None:
    keys = unsettled_keys()
    keys.add(b"abcde", 1, 1)

    assert keys.discard(1, 4, 2) == b"cd"
    assert [typed.data for typed in keys.unsettled] == [b"e"]


def test_keys_wait_for_the_debugger_of_their_stop() -> None:
    keys = unsettled_keys()
    keys.add(b"n", 1, None)

    assert keys.open_session(2, 7) == ()
    (opened,) = keys.open_session(1, 7)

    assert (opened.session, opened.data) == (7, b"n")
    assert keys.open_session(1, 7) == ()
    assert keys.unsettled == (opened,)


def test_unsent_keys_leave_no_gap_in_the_offsets() -> None:
    keys = unsettled_keys()
    keys.add(b"ab", 1, 1)
    keys.add(b"cd", 2, None)

    assert keys.abandon_unsent() == b"cd"
    typed = keys.add(b"e", 3, 3)

    assert typed is not None
    assert typed.offset == 2
    assert [t.data for t in keys.unsettled] == [b"ab", b"e"]


def test_keys_above_the_limit_are_refused_entirely() -> None:
    keys = unsettled_keys()
    assert keys.add(b"x" * MAX_INPUT_PENDING, 1, 1) is not None

    assert keys.add(b"y", 1, 1) is None
    keys.acknowledge(1, 1)
    assert keys.add(b"y", 1, 1) is not None


class Rank:
    """A rank that applies each byte of its input once."""

    def __init__(self) -> None:
        self.taken = b""

    def take(self, offset: int, data: bytes) -> None:
        known = len(self.taken) - offset
        if known >= 0:
            self.taken += data[known:]


@given(
    typed=st.lists(st.binary(min_size=1, max_size=5), max_size=20),
    losses=st.lists(st.booleans(), max_size=20),
    silences=st.lists(st.booleans(), max_size=20),
)
def test_every_key_is_applied_once_despite_lost_connections(
    typed: list[bytes], losses: list[bool], silences: list[bool]
) -> None:
    keys, rank = unsettled_keys(), Rank()
    for number, data in enumerate(typed):
        entry = keys.add(data, 1, 1)
        assert entry is not None
        if number < len(losses) and losses[number]:
            continue  # lost with the connection; the rank gets it when all unsettled keys are sent again
        for unsettled in keys.unsettled:
            rank.take(unsettled.offset, unsettled.data)
        if not (number < len(silences) and silences[number]):
            keys.acknowledge(1, len(rank.taken))
    for unsettled in keys.unsettled:
        rank.take(unsettled.offset, unsettled.data)

    assert rank.taken == b"".join(typed)
