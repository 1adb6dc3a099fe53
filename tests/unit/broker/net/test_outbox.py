"""Bounded queues, dropped output and the pace of repaints."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dbg_broker.net.outbox import FRAME_COST, Outbox
from tests.support.slow_transport import SlowTransport

ROOM_FOR_TWO = 2 * (10 + FRAME_COST)
TEN = bytes(10)


def slow(bound: int) -> tuple[Outbox, SlowTransport]:
    outbox = Outbox(bound)
    return outbox, SlowTransport(outbox)


def test_output_beyond_the_limit_drops_all_waiting_output() -> None:
    outbox, transport = slow(ROOM_FOR_TWO)
    outbox.send_output(TEN)
    outbox.send_control(b"control")
    assert not outbox.send_output(TEN)
    assert outbox.dropped == 2
    assert transport.take_all() == [b"control"]


def test_repaint_is_due_once_after_all_is_sent() -> None:
    outbox, transport = slow(ROOM_FOR_TWO)
    outbox.send_control(b"control")
    outbox.send_output(TEN)
    outbox.send_output(TEN)
    assert not outbox.missed()
    assert not outbox.send_output(b"")
    transport.take_all()
    outbox.is_paused = False
    assert not outbox.send_output(b""), "output came before the repaint"
    assert outbox.missed()
    assert not outbox.missed()
    assert outbox.send_output(TEN)


def test_message_replaces_a_waiting_one_of_the_same_name() -> None:
    outbox, transport = slow(ROOM_FOR_TWO)
    for number in range(100):
        assert outbox.send_control(b"%02d" % number, "audience")
        assert outbox.send_control(b"x%d" % (number % 10), "probe")
    assert transport.take_all() == [b"99", b"x9"]
    assert outbox.waiting_bytes == 0


class OutboxMachine(RuleBasedStateMachine):
    """An outbox that is offered frames in any order, and a peer that takes some of them at any time."""

    BOUND = 3000

    def __init__(self) -> None:
        super().__init__()
        self.outbox, self.transport = slow(self.BOUND)
        self.serial = 0
        self.owed: list[bytes] = []
        self.last_output = -1

    def frame(self, kind: bytes, size: int) -> bytes:
        self.serial += 1
        return kind + b"%06d" % self.serial + bytes(size)

    @rule(size=st.integers(0, 700))
    def output(self, size: int) -> None:
        self.outbox.send_output(self.frame(b"o", size))

    @rule(size=st.integers(0, 700))
    def control(self, size: int) -> None:
        frame = self.frame(b"c", size)
        if self.outbox.send_control(frame):
            self.owed.append(frame)

    @rule(name=st.sampled_from(["audience", "probe"]), size=st.integers(0, 700))
    def restated(self, name: str, size: int) -> None:
        frame = self.frame(name[:1].encode(), size)
        is_taken = self.outbox.send_control(frame, name)
        self.owed = [waiting for waiting in self.owed if waiting[:1] != name[:1].encode()]
        if is_taken:
            self.owed.append(frame)

    @rule(count=st.integers(1, 4))
    def peer_takes(self, count: int) -> None:
        self.transport.buffered = 0
        for _ in range(count):
            frame = self.transport.take()
            if frame is None:
                break
            self.transport.buffered += len(frame)
            if frame[:1] == b"o":
                assert int(frame[1:7]) > self.last_output
                self.last_output = int(frame[1:7])
            else:
                assert frame == self.owed.pop(0)

    @rule()
    def repaint(self) -> None:
        if self.outbox.missed():
            assert len(self.outbox) == 0

    @invariant()
    def bound_holds(self) -> None:
        assert self.transport.buffered <= self.outbox.waiting_bytes <= self.BOUND

    def teardown(self) -> None:
        rest = [frame for frame in self.transport.take_all() if frame[:1] != b"o"]
        assert rest == self.owed
        assert self.outbox.waiting_bytes == self.transport.buffered


TestOutboxMachine = OutboxMachine.TestCase
TestOutboxMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
