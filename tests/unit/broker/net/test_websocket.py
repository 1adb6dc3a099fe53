"""What goes and comes on a WebSocket: the library's frames, short ones without it, and the messages of fragments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from dbg_broker.net import websocket
from dbg_broker.net.websocket import Fragments, WebSocket, pack, pack_message, whole_frames
from dbg_wire.messages import Probe


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 100_000])
@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.BINARY])
def test_frame_is_the_librarys(opcode: Opcode, size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    assert pack(opcode, payload[:size]) == Frame(opcode, payload[:size]).serialize(mask=False)


def test_messages_are_text() -> None:
    assert pack_message(Probe()) == Frame(Opcode.TEXT, b'{"type":"probe"}').serialize(mask=False)


def frame_of(opcode: Opcode, payload: bytes, *, fin: bool) -> Frame:
    """Return a frame that the protocol allows."""
    is_control = opcode >= Opcode.CLOSE
    return Frame(opcode, payload[:125] if is_control else payload, fin=fin or is_control)


FRAMES = st.builds(
    frame_of,
    st.sampled_from(list(Opcode)),
    st.binary(max_size=300) | st.sampled_from([bytes(65535), bytes(65536)]),
    fin=st.booleans(),
)


def is_short(frame: Frame) -> bool:
    is_control = frame.opcode in (Opcode.PING, Opcode.PONG)
    return frame.fin and (is_control or (frame.opcode in (Opcode.TEXT, Opcode.BINARY) and len(frame.data) < 65536))


@given(st.lists(FRAMES, min_size=1, max_size=4))
def test_short_frames_of_a_client_are_found_in_their_bytes_and_nothing_else_is(frames: list[Frame]) -> None:
    data = b"".join(frame.serialize(mask=True) for frame in frames)
    assert whole_frames(data) == (frames if all(map(is_short, frames)) else None)
    unmasked = frames[-1].serialize(mask=False)
    for other in (data[:-1], data + b"\x81", data + unmasked, bytes([data[0] | 0x40]) + data[1:]):
        assert whole_frames(other) is None


def test_a_ping_is_answered_and_short_frames_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(websocket, "ServerProtocol")
    opened = WebSocket()
    came = [Frame(Opcode.TEXT, b"one"), Frame(Opcode.PING, b"there?"), Frame(Opcode.BINARY, b"two")]
    assert opened.receive(b"".join(frame.serialize(mask=True) for frame in came))
    messages = [opened.message(opened.frames.pop()) for _ in came]
    assert messages == [(Opcode.TEXT, b"one"), None, (Opcode.BINARY, b"two")]
    assert opened.data_to_send() == [Frame(Opcode.PONG, b"there?").serialize(mask=False)]
    assert opened.data_to_send() == []
    assert (opened.is_open, opened.breach, opened.unfinished()) == (True, "", None)


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
