"""Bounded queues, dropped output and the pace of repaints."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dbg_broker.net.outbox import FRAME_COST, Fate, Outbox

ROOM_FOR_TWO = 2 * (10 + FRAME_COST)
TEN = bytes(10)


def drain(outbox: Outbox) -> list[bytes]:
    frames = []
    while (frame := outbox.pop()) is not None:
        frames.append(frame)
    return frames


def test_frames_leave_in_the_order_in_which_they_came() -> None:
    outbox = Outbox(1000, 0.0)
    outbox.offer_output(b"1", 0)
    outbox.offer_control(b"2", 0)
    outbox.offer_output(b"3", 0)
    assert drain(outbox) == [b"1", b"2", b"3"]


def test_output_beyond_the_bound_goes_with_all_that_waits() -> None:
    outbox = Outbox(ROOM_FOR_TWO, 0.0)
    outbox.offer_output(TEN, 0)
    outbox.offer_control(b"control", 0)
    assert outbox.offer_output(TEN, 0) is Fate.DROPPED
    assert outbox.dropped == 2
    assert drain(outbox) == [b"control"]


def test_what_the_transport_holds_counts() -> None:
    assert Outbox(ROOM_FOR_TWO, 0.0).offer_output(TEN, ROOM_FOR_TWO - FRAME_COST - 10) is Fate.QUEUED
    assert Outbox(ROOM_FOR_TWO, 0.0).offer_output(TEN, ROOM_FOR_TWO - FRAME_COST - 9) is Fate.DROPPED


def test_repaint_is_due_once_and_only_after_all_has_gone_out() -> None:
    outbox = Outbox(ROOM_FOR_TWO, 0.0)
    outbox.offer_control(b"control", 0)
    outbox.offer_output(TEN, 0)
    outbox.offer_output(TEN, 0)
    assert not outbox.missed()
    assert outbox.offer_output(b"", 0) is Fate.DROPPED
    drain(outbox)
    assert outbox.missed()
    assert not outbox.missed()
    assert outbox.offer_output(TEN, 0) is Fate.QUEUED


def test_control_makes_room_for_itself_at_the_cost_of_output() -> None:
    outbox = Outbox(ROOM_FOR_TWO, 0.0)
    outbox.offer_output(TEN, 0)
    outbox.offer_output(TEN, 0)
    assert outbox.offer_control(TEN, 0) is Fate.QUEUED
    assert drain(outbox) == [TEN]
    assert outbox.missed()


def test_control_that_has_no_room_is_an_overflow() -> None:
    outbox = Outbox(ROOM_FOR_TWO, 0.0)
    outbox.offer_control(TEN, 0)
    outbox.offer_control(TEN, 0)
    assert outbox.offer_control(b"", 0) is Fate.OVERFLOW
    assert len(outbox) == 2


def test_message_of_the_same_name_replaces_the_one_that_waits() -> None:
    outbox = Outbox(ROOM_FOR_TWO, 0.0)
    for number in range(100):
        assert outbox.offer_control(b"%02d" % number, 0, "audience") is Fate.QUEUED
        assert outbox.offer_control(b"x%d" % (number % 10), 0, "probe") is Fate.QUEUED
    assert drain(outbox) == [b"99", b"x9"]
    assert outbox.waiting == 0


def test_terminal_is_stalled_only_while_it_takes_nothing() -> None:
    outbox = Outbox(1000, 0.0)
    assert not outbox.is_stalled(0, 100.0, 60.0)
    outbox.passed(50)
    outbox.offer_output(TEN, 50)
    assert not outbox.is_stalled(50, 101.0, 60.0)
    assert not outbox.is_stalled(50, 159.0, 60.0)
    assert not outbox.is_stalled(49, 162.0, 60.0)
    assert not outbox.is_stalled(49, 221.0, 60.0)
    assert outbox.is_stalled(49, 222.0, 60.0)


class OutboxMachine(RuleBasedStateMachine):
    """An outbox that is offered frames in any order, and a peer that takes some of them at any time."""

    BOUND = 3000

    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox(self.BOUND, 0.0)
        self.held = 0
        self.serial = 0
        self.owed: list[bytes] = []
        self.last_output = -1

    def frame(self, kind: bytes, size: int) -> bytes:
        self.serial += 1
        return kind + b"%06d" % self.serial + bytes(size)

    @rule(size=st.integers(0, 700))
    def output(self, size: int) -> None:
        self.outbox.offer_output(self.frame(b"o", size), self.held)

    @rule(size=st.integers(0, 700))
    def control(self, size: int) -> None:
        frame = self.frame(b"c", size)
        if self.outbox.offer_control(frame, self.held) is Fate.QUEUED:
            self.owed.append(frame)

    @rule(name=st.sampled_from(["audience", "probe"]), size=st.integers(0, 700))
    def restated(self, name: str, size: int) -> None:
        frame = self.frame(name[:1].encode(), size)
        fate = self.outbox.offer_control(frame, self.held, name)
        self.owed = [waiting for waiting in self.owed if waiting[:1] != name[:1].encode()]
        if fate is Fate.QUEUED:
            self.owed.append(frame)

    @rule(count=st.integers(1, 4))
    def peer_takes(self, count: int) -> None:
        self.held = 0
        for _ in range(count):
            frame = self.outbox.pop()
            if frame is None:
                break
            self.held += len(frame)
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
        assert self.outbox.waiting >= 0
        assert self.outbox.waiting + self.held <= self.BOUND

    def teardown(self) -> None:
        rest = [frame for frame in drain(self.outbox) if frame[:1] != b"o"]
        assert rest == self.owed
        assert self.outbox.waiting == 0


TestOutboxMachine = OutboxMachine.TestCase
TestOutboxMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def test_output_beside_more_than_it_may_wait_with_is_dropped_like_any_that_does_not_fit() -> None:
    outbox = Outbox(100_000, 0.0)
    assert outbox.offer_output(bytes(600), 0, most=1000) is Fate.QUEUED
    assert outbox.offer_output(bytes(600), 0, most=1000) is Fate.DROPPED
    assert outbox.is_skipping
    assert outbox.missed()
    assert outbox.offer_output(bytes(600), 0, most=1000) is Fate.QUEUED
    assert outbox.offer_output(bytes(600), 0) is Fate.QUEUED
