"""Memory of a broker process while a peer with a token sends as much as the broker may keep."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from dbg_wire import limits
from dbg_wire.codec import decode, encode
from dbg_wire.messages import Action, Answer, Answers, Ask, Goodbye, Greet, Kind, Message, Question, Sender
from dbg_wire.records.ranks import Breakpoint, Place
from tests.support.serving import SECONDS, Serving, run
from tests.support.tokens import written_tokens
from tests.unit.broker.peers import RUNNING, registration

BOUND = 16 * limits.MIB
"""Bytes to which each bound is set: a smaller bound shows the same in less time."""

ROOM = 48 * limits.MIB
"""Bytes beside the bound: one message while it is read, and memory that the allocator doesn't give back."""

FIRST = f"""
from dbg_broker.net import websocket
from dbg_broker.ranks import questions
from dbg_wire import limits
questions.MAX_BYTES = websocket.MAX_UNFINISHED_BYTES = limits.MAX_ENDED_BYTES = {BOUND}
"""

LARGE = ("x" * 16_000,) * 45


@pytest.fixture
def serving(home: Path) -> Iterator[Serving]:
    serving = Serving(home, ("--listen", "127.0.0.1:0", "--insecure"), first=FIRST)
    yield serving
    serving.end(signal.SIGKILL)


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
    connected = socket.socket()
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * limits.KIB)
    connected.settimeout(SECONDS)
    connected.connect(("127.0.0.1", serving.port))
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


def test_ended_ranks_of_a_mebibyte_and_more(serving: Serving) -> None:
    points = tuple(Breakpoint(file=f"/{line}/" + "x" * 4000, line=1) for line in range(100))
    frames = tuple(Place(file=f"/{line}/" + "x" * 2000, line=1, function=f"{line}" + "f" * 1000) for line in range(256))
    said = encode(registration(report=RUNNING.replace(user_breakpoints=points)))
    goodbye = framed(Goodbye(exit=0, frames=frames, detail="x"))
    before = resident(serving)
    for number in range(80):
        with connect(serving, "/agent", "rank") as rank:
            rank.sendall(text_frame(said.replace("gpu013:0/", f"gpu013:0/{number}")) + goodbye)
            rank.shutdown(socket.SHUT_WR)
            while rank.recv(65536):
                pass
    assert resident(serving) - before < BOUND + ROOM


class Ranks(threading.Thread):
    """Ranks that give the largest possible answer to each question."""

    def __init__(self, serving: Serving, stack: ExitStack, count: int) -> None:
        super().__init__()
        self.keys = tuple(registration(number).identity.key for number in range(count))
        self._links: dict[socket.socket, ClientProtocol] = {}
        for number in range(count):
            link = stack.enter_context(connect(serving, "/agent", "rank"))
            link.sendall(framed(registration(number)))
            self._links[link] = ClientProtocol(parse_uri("ws://h"), state=State.OPEN)
        self._end, told = socket.socketpair()
        self._told = stack.enter_context(told)
        self.start()
        stack.callback(self._finish)

    def _finish(self) -> None:
        self._end.close()
        self.join()

    def run(self) -> None:
        """Answer until the test ends."""
        while True:
            readable, _, _ = select.select([self._told, *self._links], [], [])
            if self._told in readable:
                return
            for link in readable:
                self._links[link].receive_data(link.recv(65536))
                for event in self._links[link].events_received():
                    assert isinstance(event, Frame)
                    message = decode(bytes(event.data), Sender.BROKER)
                    if isinstance(message, Ask):
                        link.sendall(framed(Answer(request=message.request, kind=Kind.VALUE, text="", rows=LARGE)))


def test_answers_that_nobody_reads(serving: Serving, stack: ExitStack) -> None:
    ranks = Ranks(serving, stack, 8)
    before = resident(serving)
    for _ in range(2):
        terminal = stack.enter_context(connect(serving, "/client", "watcher"))
        terminal.sendall(framed(Greet(minor=0, release="0", name="me")))
        for number in range(8):
            with contextlib.suppress(ConnectionError):
                terminal.sendall(framed(Question(request=number, keys=ranks.keys, action=Action.WHERE, seconds=60.0)))
    # A rank answers in order, so once this last terminal has its answers, all earlier questions are answered.
    assert answers_of(stack.enter_context(connect(serving, "/client", "watcher")), ranks.keys) == len(ranks.keys)
    assert resident(serving) - before < BOUND + ROOM


def answers_of(terminal: socket.socket, keys: tuple[str, ...]) -> int:
    """Ask ranks from a terminal that reads, and return how many gave a whole answer."""
    terminal.sendall(framed(Greet(minor=0, release="0", name="me")))
    terminal.sendall(framed(Question(request=1, keys=keys, action=Action.WHERE, seconds=60.0)))
    link = ClientProtocol(parse_uri("ws://h"), state=State.OPEN)
    found = 0
    while True:
        link.receive_data(terminal.recv(65536))
        for event in link.events_received():
            assert isinstance(event, Frame)
            message = decode(bytes(event.data), Sender.BROKER)
            if isinstance(message, Answers):
                found += sum(answer.rows == LARGE for answer in message.answers)
                if message.last:
                    return found
