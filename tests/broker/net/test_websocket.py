"""The broker's frames are the bytes that the WebSocket library would send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from dbg_broker.net.frames import pack, pack_message
from dbg_broker.net.websocket import Fragments, whole_frame
from dbg_wire.messages import Probe


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 100_000])
@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.BINARY])
def test_frame_is_the_librarys(opcode: Opcode, size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    assert pack(opcode, payload[:size]) == Frame(opcode, payload[:size]).serialize(mask=False)


@given(
    st.sampled_from(list(Opcode)), st.binary(max_size=300) | st.binary(min_size=65530, max_size=65540), st.booleans()
)
def test_whole_message_of_a_client_is_found_in_its_bytes_and_nothing_else_is(
    opcode: Opcode, payload: bytes, fin: bool
) -> None:
    frame = Frame(opcode, payload[:125] if opcode >= Opcode.CLOSE else payload, fin=fin or opcode >= Opcode.CLOSE)
    data = frame.serialize(mask=True)
    is_whole = frame.fin and opcode in (Opcode.TEXT, Opcode.BINARY) and len(payload) < 65536
    assert whole_frame(data) == (frame if is_whole else None)
    for other in (data[:-1], data + b"\x81", frame.serialize(mask=False), bytes([data[0] | 0x40]) + data[1:]):
        assert whole_frame(other) is None


def test_messages_are_text() -> None:
    assert pack_message(Probe()) == Frame(Opcode.TEXT, b'{"type":"probe"}').serialize(mask=False)


def test_fragments_become_one_message_of_the_kind_of_the_first() -> None:
    fragments = Fragments()
    assert not fragments.is_begun
    assert fragments.add(Frame(Opcode.TEXT, b"", fin=False)) is None
    assert fragments.add(Frame(Opcode.CONT, b"one ", fin=False)) is None
    assert fragments.is_begun
    assert fragments.add(Frame(Opcode.PING, b"between")) is None
    assert fragments.add(Frame(Opcode.CONT, b"two ", fin=False)) is None
    assert len(fragments) == len(b"one two ")
    assert fragments.add(Frame(Opcode.CONT, b"three")) == (Opcode.TEXT, b"one two three")
    assert (len(fragments), fragments.is_begun) == (0, False)
    assert fragments.add(Frame(Opcode.BINARY, b"whole")) == (Opcode.BINARY, b"whole")
