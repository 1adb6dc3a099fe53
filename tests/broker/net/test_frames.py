"""The broker's frames are the bytes that the WebSocket library would send."""

from __future__ import annotations

import pytest
from websockets.frames import Frame, Opcode

from dbg_broker.net.frames import pack, pack_message
from dbg_wire.messages import Probe


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 100_000])
@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.BINARY])
def test_frame_is_the_librarys(opcode: Opcode, size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    assert pack(opcode, payload[:size]) == Frame(opcode, payload[:size]).serialize(mask=False)


def test_messages_are_text() -> None:
    assert pack_message(Probe()) == Frame(Opcode.TEXT, b'{"type":"probe"}').serialize(mask=False)
