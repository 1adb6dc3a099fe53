"""Keys are applied once, in order, to what they were typed for, or reported."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.stop.inbox import Loss, TypedKeys
from dbg_wire.codec import Input
from dbg_wire.limits import MAX_INPUT_PENDING


def frame(data: bytes, offset: int = 0, *, stop: int = 1, session: int = 1, generation: int = 1) -> Input:
    return Input(session, stop, generation, offset, data)


@pytest.fixture
def keys() -> TypedKeys:
    keys = TypedKeys()
    keys.change_driver(1)
    return keys


def test_what_is_typed_waits_and_counts_as_applied_once_taken(keys: TypedKeys) -> None:
    assert keys.receive(frame(b"nnn"), stop=1, session=1) is None
    assert (keys.peek(2), keys.applied, keys.pending) == (b"nn", 0, 3)
    keys.take(2)
    assert (keys.peek(9), keys.applied) == (b"n", 2)


def test_a_frame_sent_again_after_a_reconnect_is_not_applied_again(keys: TypedKeys) -> None:
    keys.receive(frame(b"ns"), stop=1, session=1)
    keys.take(1)
    assert keys.receive(frame(b"s", 1), stop=1, session=1) is None
    assert keys.receive(frame(b"sc", 1), stop=1, session=1) is None
    assert keys.peek(9) == b"sc"


def test_keys_for_an_ended_stop_are_lost_by_name(keys: TypedKeys) -> None:
    loss = keys.receive(frame(b"nn", stop=1), stop=2, session=2)
    assert loss == Loss(1, 2, 2, "the stop it was typed for has ended")
    assert keys.applied == 2


def test_a_former_drivers_keys_are_refused(keys: TypedKeys) -> None:
    keys.receive(frame(b"n"), stop=1, session=1)
    assert keys.change_driver(2) == Loss(1, 1, 1, "the keyboard was handed over")
    loss = keys.receive(frame(b"c", 1, generation=1), stop=1, session=1)
    assert loss is not None
    assert loss.count == 1
    assert keys.pending == 0


def test_too_much_typed_ahead_is_dropped_whole(keys: TypedKeys) -> None:
    half = b"x" * (MAX_INPUT_PENDING // 2 + 1)
    assert keys.receive(frame(half), stop=1, session=1) is None
    loss = keys.receive(frame(half, len(half)), stop=1, session=1)
    assert loss is not None
    assert (loss.count, keys.pending, keys.applied) == (2 * len(half), 0, 2 * len(half))


@dataclass
class Sender:
    """A client that resends from any settled offset, as after any number of reconnects."""

    typed: bytearray = field(default_factory=bytearray)


@given(st.lists(st.tuples(st.sampled_from(["type", "resend", "take", "end"]), st.binary(min_size=1, max_size=5))))
def test_every_byte_is_applied_or_lost_exactly_once_and_in_order(steps: list[tuple[str, bytes]]) -> None:
    keys, typed, applied, lost, stop = TypedKeys(), bytearray(), bytearray(), 0, 1
    keys.change_driver(1)
    for what, data in steps:
        if what == "type":
            keys.receive(frame(data, len(typed), stop=stop), stop=stop, session=1)
            typed += data
        elif what == "resend":
            offset = keys.applied
            if typed[offset:]:
                keys.receive(frame(bytes(typed[offset:]), offset, stop=stop), stop=stop, session=1)
        elif what == "take":
            taken = keys.peek(len(data))
            applied += taken
            keys.take(len(taken))
        else:
            loss = keys.discard("the stop ended")
            lost += loss.count if loss else 0
            stop += 1
    assert len(applied) + lost + keys.pending == len(typed)
    assert keys.applied == len(applied) + lost
    assert keys.received == len(typed)
    rest = iter(bytes(typed))
    assert all(byte in rest for byte in applied), "applied bytes are a subsequence of what was typed"
