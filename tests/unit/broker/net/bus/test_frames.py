"""Frames of the bus: cut, joined, and missed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.net.bus.frames import HEADER_BYTES, MAX_MESSAGE_BYTES, Receiving, Sending


def take(receiving: Receiving, frames: list[bytes]) -> list[bytes]:
    """Return the messages that frames complete."""
    return [payload for frame in frames if (payload := receiving.take(frame)) is not None]


@given(st.lists(st.binary(max_size=200)), st.integers(HEADER_BYTES + 1, 64))
def test_messages_of_any_length_come_as_they_were(payloads: list[bytes], most: int) -> None:
    sending, receiving = Sending(most), Receiving()
    for payload in payloads:
        frames = list(sending.frames(payload))
        assert all(len(frame) <= most for frame in frames)
        assert take(receiving, frames) == [payload]
        assert not receiving.is_behind


def test_a_missing_message_is_known_at_the_next_one_and_then_forgiven() -> None:
    sending, receiving = Sending(100), Receiving()
    one, two, three, four = (next(sending.frames(bytes([number]))) for number in range(4))
    assert receiving.take(one) == b"\0"
    assert receiving.take(three) == b"\2"
    assert receiving.is_behind
    assert receiving.take(four) == b"\3"
    assert not receiving.is_behind
    assert two


def test_of_a_message_that_lacks_a_part_nothing_comes() -> None:
    sending, receiving = Sending(HEADER_BYTES + 4), Receiving()
    first, *_, last = sending.frames(b"twelve bytes")
    assert receiving.take(first) is None
    assert receiving.take(last) is None
    assert receiving.is_behind
    assert take(receiving, list(sending.frames(b"the next one"))) == [b"the next one"]
    assert not receiving.is_behind
    _, *rest = sending.frames(b"without its begin")
    assert take(receiving, rest) == []


def test_a_message_is_bounded_at_both_ends() -> None:
    with pytest.raises(ValueError, match="above"):
        list(Sending(100).frames(bytes(MAX_MESSAGE_BYTES + 1)))
    receiving, parts = Receiving(), Sending(HEADER_BYTES + MAX_MESSAGE_BYTES // 2)
    first, second = parts.frames(bytes(MAX_MESSAGE_BYTES))
    # A sender that never ends its message: each frame is one in the midst.
    endless = [first, second.replace(b"\x02", b"\x00", 1), b"\x00" + (3).to_bytes(8, "big") + b"one more"]
    assert take(receiving, endless) == []
    assert receiving.is_behind


@given(st.lists(st.binary(max_size=40)))
def test_no_bytes_of_another_do_harm(frames: list[bytes]) -> None:
    receiving = Receiving()
    for frame in frames:
        receiving.take(frame)
