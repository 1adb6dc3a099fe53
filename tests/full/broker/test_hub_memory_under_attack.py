"""Memory of a broker process while a peer with a token sends as much as the broker may keep."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode

from dbg_wire import limits
from dbg_wire.codec import encode
from dbg_wire.messages import Message
from tests.support.processes import Processes
from tests.support.serving import SECONDS, Serving, run
from tests.support.tokens import written_tokens
from tests.unit.broker.peers import trusting_context

BOUND = 16 * limits.MIB
"""Bytes to which each bound is set: a smaller bound shows the same in less time."""

ROOM = 48 * limits.MIB
"""Bytes beside the bound: one message while it is read, and memory that the allocator doesn't give back."""

FIRST = f"""
from dbg_broker.net import websocket
from dbg_broker.ranks import questions
from dbg_wire import limits
questions.MAX_BYTES = websocket.MAX_UNFINISHED_BYTES = {BOUND}
"""


@pytest.fixture
def serving(processes: Processes, home: Path) -> Serving:
    return Serving(processes, home, "--listen", "127.0.0.1:0", first=FIRST)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def resident(serving: Serving) -> int:
    """Return the bytes that the broker occupies once it has handled all that was sent before."""
    assert run(serving.home, "check").returncode == 0
    lines = Path(f"/proc/{serving.pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * limits.KIB for line in lines if line.startswith("Rss:"))


def connect(serving: Serving, path: str, role: str) -> socket.socket:
    """Return a WebSocket that reads nothing but the answer to its handshake."""
    token = written_tokens(serving.home)[role]
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * limits.KIB)
    plain.settimeout(SECONDS)
    plain.connect(("127.0.0.1", serving.port))
    connected = trusting_context().wrap_socket(plain)
    headers = {
        "Host": "h",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Protocol": "dbg.v1",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version": "13",
        "Authorization": f"Bearer {token}",
    }
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    connected.sendall("\r\n".join(lines).encode())
    assert connected.recv(1024).startswith(b"HTTP/1.1 101 ")
    return connected


def framed(*messages: Message) -> bytes:
    return b"".join(text_frame(encode(message)) for message in messages)


def text_frame(text: str) -> bytes:
    return Frame(Opcode.TEXT, text.encode()).serialize(mask=True)


def test_parts_of_messages(serving: Serving, stack: ExitStack) -> None:
    part = Frame(Opcode.TEXT, bytes(limits.MAX_FRAME_BYTES)).serialize(mask=True)[:-1]
    before = resident(serving)
    for _ in range(100):
        connected = stack.enter_context(connect(serving, "/agent", "rank"))
        with contextlib.suppress(ConnectionError):
            connected.sendall(part)
    assert resident(serving) - before < BOUND + ROOM
