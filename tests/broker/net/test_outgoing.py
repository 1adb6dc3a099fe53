"""Frames on their way to a transport that may be full, or may be closing."""

from __future__ import annotations

import pytest

from dbg_broker.net.outbox import OutgoingFrames
from dbg_broker.net.transport import SocketTransport


class RecordingTransport(SocketTransport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    @property
    def is_closing(self) -> bool:
        return self.closing

    @property
    def buffered(self) -> int:
        return 0


@pytest.fixture
def transport() -> RecordingTransport:
    return RecordingTransport()


@pytest.fixture
def outgoing(transport: RecordingTransport) -> OutgoingFrames:
    frames = OutgoingFrames(0.0)
    frames.transport = transport
    return frames


def test_an_empty_piece_of_the_library_ends_the_output(outgoing: OutgoingFrames, transport: RecordingTransport) -> None:
    assert not outgoing.write_to_end([b"pong"])
    assert outgoing.write_to_end([b"close", b""])
    assert transport.written == [b"pong", b"close"]


def test_the_output_of_a_closing_transport_is_not_ended_again(
    outgoing: OutgoingFrames, transport: RecordingTransport
) -> None:
    transport.closing = True
    assert not outgoing.write_to_end([b"close", b""])
    assert transport.written == []


def test_frames_wait_in_their_order_while_the_transport_is_paused(
    outgoing: OutgoingFrames, transport: RecordingTransport
) -> None:
    outgoing.is_paused = True
    assert outgoing.send_control(b"1")
    assert outgoing.send_output(b"2")
    assert not outgoing.is_free
    assert outgoing.waiting_bytes > 0
    outgoing.is_paused = False
    outgoing.pump()
    assert transport.written == [b"1", b"2"]
    assert outgoing.is_free


def test_bytes_past_the_queue_overtake_what_waits(outgoing: OutgoingFrames, transport: RecordingTransport) -> None:
    outgoing.is_paused = True
    assert outgoing.send_control(b"later")
    outgoing.write(b"first")
    outgoing.flush()
    assert transport.written == [b"first", b"later"]
