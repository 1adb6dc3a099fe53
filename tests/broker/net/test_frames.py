"""The broker's frames are the bytes that the WebSocket library would send."""

from __future__ import annotations

import pytest
from websockets.frames import Frame, Opcode

from dbg_broker.net.frames import Fragments, pack, pack_message
from dbg_wire.messages import Probe


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 100_000])
@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.BINARY])
def test_frame_is_the_librarys(opcode: Opcode, size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    assert pack(opcode, payload[:size]) == Frame(opcode, payload[:size]).serialize(mask=False)


def test_messages_are_text() -> None:
    assert pack_message(Probe()) == Frame(Opcode.TEXT, b'{"type":"probe"}').serialize(mask=False)


def test_fragments_become_one_message_of_the_kind_of_the_first() -> None:
    fragments = Fragments()
    assert fragments.take(Frame(Opcode.TEXT, b"one ", fin=False)) is None
    assert fragments.take(Frame(Opcode.PING, b"between")) is None
    assert fragments.take(Frame(Opcode.CONT, b"two ", fin=False)) is None
    assert len(fragments) == len(b"one two ")
    assert fragments.take(Frame(Opcode.CONT, b"three")) == (Opcode.TEXT, b"one two three")
    assert len(fragments) == 0
    assert fragments.take(Frame(Opcode.BINARY, b"whole")) == (Opcode.BINARY, b"whole")
