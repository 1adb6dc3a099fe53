"""The owner's side of legs: the credit window, the outbox behind it, and what becomes of silent and closed ones."""

from __future__ import annotations

import typing
from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.home.bearer import Role
from dbg_broker.hub.cluster import remote_terminal
from dbg_broker.hub.cluster.legs import CREDIT_BYTES
from dbg_broker.hub.cluster.messages import (
    CloseLeg,
    ClusterMessage,
    LegFrame,
    LegSaid,
    LegSilent,
    LegTaken,
    OpenLeg,
    decode,
)
from dbg_broker.hub.cluster.remote_terminal import WINDOW_BYTES, HostedLegs, RemoteTerminal
from dbg_broker.net.websocket import CloseCode, pack_data, pack_message, pack_text
from dbg_wire import limits
from dbg_wire.messages import Greet, Mode, Notice, Probe
from tests.unit.broker.hub.cluster.several import Several, key
from tests.unit.broker.peers import attach

OPENED = OpenLeg(leg=3, role=Role.DRIVER, name="me@h", token="", job=None, digest=b"", peer="10.0.0.1:5")


class Owner:
    """What is sent by one leg, and whether it had no room."""

    def __init__(self) -> None:
        self.sent: deque[ClusterMessage] = deque()
        self.has_overflowed = False
        owner = typing.cast(HostedLegs, self)
        self.terminal = RemoteTerminal(1, OPENED, "two", owner, 0.0)

    def send(self, broker: str, message: ClusterMessage) -> bool:
        assert broker == "two"
        self.sent.append(message)
        return True

    def overflowed(self, terminal: RemoteTerminal) -> None:
        self.has_overflowed = True

    def closed(self, terminal: RemoteTerminal, code: int, reason: str) -> None:
        self.sent.append(CloseLeg(leg=terminal.leg, by_terminal=False, code=code, reason=reason))

    def frames(self) -> list[bytes]:
        return [message.frame for message in self.sent if isinstance(message, LegFrame)]


STEPS = st.lists(
    st.tuples(st.sampled_from(["control", "output", "credit"]), st.integers(1, WINDOW_BYTES // 2)), max_size=60
)


@given(STEPS)
def test_no_more_than_a_window_is_under_way_and_no_control_message_is_lost(steps: list[tuple[str, int]]) -> None:
    owner = Owner()
    terminal, said, arrived = owner.terminal, [], 0
    dropped = False
    for serial, (what, size) in enumerate(steps):
        if what == "control":
            said.append(pack_text(b"%06d" % serial + b"c" * size))
            assert terminal.send_control(said[-1])
        elif what == "output":
            frame = pack_data(b"%06d" % serial + b"o" * size)
            if terminal.send_output(frame, limits.MAX_SCREEN_BACKLOG):
                said.append(frame)
            else:
                dropped = True
        else:
            arrived = _take(owner, arrived, size)
        under_way = sum(map(len, owner.frames()[arrived:]))
        assert under_way < WINDOW_BYTES + WINDOW_BYTES // 2 + 20
    while len(owner.frames()) > arrived:
        arrived = _take(owner, arrived, WINDOW_BYTES)
    assert terminal.is_ready
    assert terminal.missed_output() == dropped
    came = owner.frames()
    # What has waited may have been dropped, as a repaint follows; all else has come once and in order.
    assert came == [frame for frame in said if frame in set(came)]
    assert [frame for frame in came if frame[0] == 0x81] == [frame for frame in said if frame[0] == 0x81]
    assert not owner.has_overflowed


def _take(owner: Owner, arrived: int, size: int) -> int:
    """Give back credit for about so many bytes of the frames that have come, and return how many these are by then."""
    taken = 0
    frames = owner.frames()
    while arrived < len(frames) and taken < size:
        taken += len(frames[arrived])
        arrived += 1
    owner.terminal.taken(taken)
    return arrived


def test_a_terminal_that_takes_little_is_never_stalled_for_what_it_needs_not_tell() -> None:
    owner = Owner()
    owner.terminal.send_message(Probe())
    assert not owner.terminal.is_stalled(0.0, 60.0)
    assert not owner.terminal.is_stalled(1000.0, 60.0)
    assert CREDIT_BYTES < WINDOW_BYTES


def test_a_terminal_that_takes_nothing_is_stalled() -> None:
    owner = Owner()
    for _ in range(3):
        owner.terminal.send_control(pack_text(b"x" * WINDOW_BYTES))
    assert not owner.terminal.is_stalled(0.0, 60.0)
    assert owner.terminal.is_stalled(61.0, 60.0)


def test_without_room_the_terminal_is_closed_and_what_waits_is_dropped() -> None:
    owner = Owner()
    while owner.terminal.send_control(pack_text(b"x" * WINDOW_BYTES)):
        pass
    assert owner.has_overflowed
    owner.terminal.close(CloseCode.SLOW, "it does not keep up", flush=False)
    assert len(owner.frames()) == 1
    assert owner.sent[-1] == CloseLeg(leg=3, by_terminal=False, code=CloseCode.SLOW, reason="it does not keep up")
    assert not owner.terminal.send_message(Probe())
    assert not owner.terminal.send_output(pack_data(b""))
    owner.terminal.close(CloseCode.DONE, "again")
    assert len(owner.sent) == 2


def test_what_waits_goes_out_before_a_close() -> None:
    owner = Owner()
    owner.terminal.send_control(pack_text(b"x" * WINDOW_BYTES))
    owner.terminal.send_message(Notice(text="the last one"))
    owner.terminal.close(CloseCode.GIVES_WAY, "another one needs the place")
    assert owner.frames()[-1] == pack_message(Notice(text="the last one"))


async def test_a_leg_that_is_not_known_is_closed(several: Several) -> None:
    one, two = several.clusters[:2]
    sent = several.nats.buses["one"].sent
    two.send("one", LegSaid(leg=77, frame=pack_text(b"{}")))
    await several.until(lambda: any(isinstance(decode(payload), CloseLeg) for _, payload in sent))
    assert len(one.hosted) == 0


async def test_a_broker_that_opens_too_many_legs_has_them_closed(several: Several) -> None:
    limit, remote_terminal.MAX_LEGS = remote_terminal.MAX_LEGS, 2
    try:
        for number in range(4):
            several.clusters[1].send("one", OPENED.replace(leg=number))
        several.clusters[1].send("one", OPENED.replace(leg=0))
        sent = several.nats.buses["one"].sent
        await several.until(lambda: sum(isinstance(decode(payload), CloseLeg) for _, payload in sent) == 3)
        assert len(several.clusters[0].hosted) == 2
    finally:
        remote_terminal.MAX_LEGS = limit


async def test_a_terminal_of_another_broker_that_breaks_the_protocol_is_closed(several: Several) -> None:
    one, two = several.clusters[:2]
    two.send("one", OPENED)
    two.send("one", LegSaid(leg=OPENED.leg, frame=pack_message(Greet(minor=0, release="1", name="x"))))
    sent = several.nats.buses["one"].sent
    await several.until(lambda: bool(sent) and isinstance(decode(sent[-1][1]), CloseLeg))
    closed = decode(sent[-1][1])
    assert isinstance(closed, CloseLeg)
    assert (closed.code, closed.reason) == (CloseCode.BAD_MESSAGE, "a second `greet`")
    await several.until(lambda: not several.brokers[0].hub.terminals.links)
    assert not one.hosted


async def test_credit_of_no_leg_and_of_one_that_has_ended_is_left_out(several: Several) -> None:
    one = several.clusters[0]
    one.hosted._taken("two", LegTaken(leg=5, count=10))
    one.hosted._silent("two", LegSilent(leg=5, seconds=1.0))
    one.hosted.ended("two", CloseLeg(leg=5, by_terminal=True, code=1000))
    assert len(one.hosted) == 0


async def test_a_revoked_token_ends_legs_at_the_ranks_broker(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    terminal = await several.brokers[1].seated(key(0), mode=Mode.WATCH)
    for link in several.brokers[0].hub.terminals.links.values():
        link.connection.close(CloseCode.REVOKED, "its token was revoked")
    assert (await terminal.closed())[0] == CloseCode.REVOKED


async def test_a_rate_counts_at_the_ranks_broker_too(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    terminal = await several.brokers[1].terminal()
    await terminal.say(attach(key(0)))
    await several.until(lambda: bool(several.clusters[0].hosted))
    (hosted,) = several.clusters[0].hosted._legs["two"].values()
    (link,) = several.brokers[1].hub.terminals.links.values()
    connection = several.brokers[1].hub.connections.open[link.number]
    hosted.rest(0.2)
    await several.until(lambda: connection._is_resting)
    await several.until(lambda: not connection._is_resting)
