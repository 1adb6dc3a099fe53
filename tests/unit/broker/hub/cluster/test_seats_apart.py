"""A terminal has one seat, whatever brokers and it say to each other in whatever order."""

from __future__ import annotations

import typing
from collections import defaultdict, deque
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.hub.cluster.cluster import Cluster
from dbg_broker.hub.cluster.legs import Legs
from dbg_broker.hub.cluster.messages import CloseLeg, ClusterMessage, LegFrame, LegSaid, OpenLeg
from dbg_broker.hub.links import TerminalLink
from dbg_broker.hub.state import Hub
from dbg_broker.net.connections import Connections
from dbg_broker.net.websocket import CloseCode, pack_message, payload_of
from dbg_broker.quotas import TokenBucket
from dbg_broker.ranks.registry import Registry
from dbg_broker.timers import Timers
from dbg_wire.codec import decode
from dbg_wire.messages import Attach, Detach, Message, Refusal, RefusalCode, Repaint, Seat, Sender
from tests.unit.broker.peers import attach, registration

HERE, BROKERS = "here", ("a", "b", "c")


class Channel:
    """The terminal's connection: what it is told, and whether it is closed."""

    number, peer, is_ready = 1, "10.0.0.1:5", True

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self.code: int | None = None

    def send_control(self, frame: bytes, instead_of: object = None) -> bool:
        self.told.append(frame)
        return True

    def send_message(self, message: Message, instead_of: object = None) -> bool:
        return self.send_control(pack_message(message))

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        self.code = code


class Others:
    """Three brokers with a rank each. What they are told and what they answer is on its way until it is delivered."""

    def __init__(self) -> None:
        self.methods: dict[type[ClusterMessage], Any] = {}
        self.down: dict[str, deque[ClusterMessage]] = defaultdict(deque)
        self.up: dict[str, deque[ClusterMessage]] = defaultdict(deque)
        self.seats: dict[str, int] = {}
        """The leg that has the seat at each broker's rank."""
        self.refuses: set[str] = set()
        self.said: list[tuple[str, Message]] = []

    def on(self, kind: type[ClusterMessage], receive: Any) -> None:
        self.methods[kind] = receive

    def send(self, to: str, message: ClusterMessage) -> bool:
        self.down[to].append(message)
        return True

    def take(self, broker: str) -> None:
        """Have a broker take the next message that it was sent."""
        if not self.down[broker]:
            return
        message = self.down[broker].popleft()
        if isinstance(message, CloseLeg):
            if self.seats.get(broker) == message.leg:
                del self.seats[broker]
            return
        if not isinstance(message, LegSaid):
            assert isinstance(message, OpenLeg)
            return
        said = decode(payload_of(message.frame), Sender.CLIENT)
        self.said.append((broker, said))
        if isinstance(said, Detach):
            self.seats.pop(broker, None)
        elif isinstance(said, Attach) and broker in self.refuses:
            self._answer(broker, message.leg, Refusal(code=RefusalCode.FULL, text="it is full"))
        elif isinstance(said, Attach):
            self.seats[broker] = message.leg
            self._answer(broker, message.leg, seat_at(broker))

    def _answer(self, broker: str, leg: int, message: Message) -> None:
        self.up[broker].append(LegFrame(leg=leg, frame=pack_message(message)))

    def give(self, broker: str) -> None:
        """Deliver the next answer of a broker."""
        if self.up[broker]:
            message = self.up[broker].popleft()
            self.methods[type(message)](broker, message)


def seat_at(broker: str) -> Seat:
    """Return the seat that a broker gives at its rank."""
    number = (HERE, *BROKERS).index(broker)
    rank = Registry().register(registration(number), 0.0).rank
    return Seat(rank=rank.info(epoch=0.0), report=rank.report, generation=1, driver=None, watchers=0)


class Scene:
    """A terminal, its own broker with a rank, and three others."""

    def __init__(self) -> None:
        timers = Timers(lambda: 0.0, lambda _seconds, _call: None)
        self.hub = Hub(timers, Connections(timers), host="h", pid=1, kernel=None)
        self.others = Others()
        self.legs = Legs(self.hub, typing.cast(Cluster, self.others))
        self.channel = Channel()
        bearer = Bearer(role=Role.DRIVER, digest=b"d")
        self.link = TerminalLink(typing.cast(Any, self.channel), bearer, TokenBucket(0.0, 1e6), name="me@h")
        self.hub.link_terminal(self.link)
        self.hub.ranks.registry.register(registration(0), 0.0)

    def attach(self, broker: str) -> None:
        """Have the terminal ask for a seat, as from_terminals does."""
        wish = attach(registration((HERE, *BROKERS).index(broker)).identity.key)
        if broker != HERE:
            assert self.legs.attach(self.link, broker, wish)
            return
        self.hub.carry_out(self.hub.terminals.seats.attach(1, "me@h", wish, 0))
        self.legs.sits_here(self.link)

    def detach(self) -> None:
        if not self.legs.pass_on(self.link, Detach()):
            self.hub.carry_out(self.hub.terminals.seats.leave(1))

    def settle(self) -> None:
        """Deliver all that is under way."""
        while any(self.others.down.values()) or any(self.others.up.values()):
            for broker in BROKERS:
                self.others.take(broker)
                self.others.give(broker)

    @property
    def seats(self) -> list[str]:
        """Where the terminal has a seat, as each broker sees it."""
        own = [HERE] if self.hub.terminals.seats.viewer(1) is not None else []
        return own + sorted(self.others.seats)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["attach"]), st.sampled_from((HERE, *BROKERS))),
        st.tuples(st.sampled_from(["take", "give", "refuse", "accept"]), st.sampled_from(BROKERS)),
        st.tuples(st.sampled_from(["detach"]), st.just("")),
    ),
    max_size=40,
)


@given(STEPS)
def test_in_the_end_a_terminal_has_the_seat_that_it_was_told_of_and_no_other(steps: list[tuple[str, str]]) -> None:
    scene = Scene()
    for what, broker in steps:
        if what == "attach":
            scene.attach(broker)
        elif what == "detach":
            scene.detach()
        elif what == "take":
            scene.others.take(broker)
        elif what == "give":
            scene.others.give(broker)
        else:
            (scene.others.refuses.add if what == "refuse" else scene.others.refuses.discard)(broker)
    scene.settle()
    assert len(scene.seats) <= 1
    scene.legs.pass_on(scene.link, Repaint())
    scene.settle()
    heard = [broker for broker, said in scene.others.said if isinstance(said, Repaint)]
    assert heard == [broker for broker in scene.seats if broker != HERE]
    assert scene.legs.seat_of(scene.link) == (
        "" if not heard else registration((HERE, *BROKERS).index(heard[0])).identity.key
    )


@given(st.lists(st.sampled_from((HERE, *BROKERS)), min_size=1, max_size=12))
def test_the_last_seat_that_was_asked_for_is_had_if_nobody_refuses(wishes: list[str]) -> None:
    scene = Scene()
    for number, broker in enumerate(wishes):
        scene.attach(broker)
        if number % 3 == 0:
            scene.others.take(broker)
    scene.settle()
    assert scene.seats == [wishes[-1]]


@given(st.lists(st.sampled_from((HERE, *BROKERS)), min_size=1, max_size=6), st.sampled_from(BROKERS))
def test_a_cut_closes_the_terminal_if_it_sits_there_and_leaves_no_leg(wishes: list[str], cut: str) -> None:
    scene = Scene()
    for broker in wishes:
        scene.attach(broker)
    scene.settle()
    scene.legs.cut(cut)
    assert (scene.channel.code == CloseCode.SHUTDOWN) == (wishes[-1] == cut)
    scene.settle()
    assert cut not in scene.others.seats
    scene.legs.terminal_left(scene.link)
    scene.settle()
    assert not scene.legs
    assert not scene.others.seats
