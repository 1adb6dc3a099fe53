"""What a broker does for a job grows with the number of its ranks and not faster."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from itertools import count
from typing import cast

import pytest

from dbg_broker.broker import Broker
from dbg_broker.home.tokens import Bearer, Role, Tokens
from dbg_broker.net.peer import Peer as Connection
from dbg_broker.timers import Timers
from dbg_broker.welcome import Welcomes
from dbg_wire.messages import (
    Action,
    Arrival,
    Goodbye,
    Greet,
    Kind,
    Message,
    Question,
    RankReport,
    Report,
    Subscribe,
    Waiting,
    answer_to,
)
from dbg_wire.records.ranks import RankState
from tests.support.calls import calls_of
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, registration

FEW = 1000
SITE = "train.py:41"
HELD = RankReport(state=RankState.HELD, stop=STOP.replace(reason="hold"), waits=Waiting(site=SITE, count=1, ranks=(0,)))
KEPT = STOPPED.replace(stop=STOP.replace(reason="crash"))
CHOSEN = STOPPED.replace(arrivals=(Arrival(site=SITE, arrived=1, completed=0),))


class Peer:
    """The broker's end of a connection that takes everything at once."""

    is_ready = True
    heard_at = 0.0

    def __init__(self, number: int) -> None:
        self.number = number
        self.peer = f"10.0.{number // 256}.{number % 256}:{number}"
        self.taken = 0

    def send_message(self, _message: Message, _instead_of: Hashable = None) -> bool:
        self.taken += 1
        return True

    def send_packed(self, _message: Message, _frame: bytes, _instead_of: Hashable = None) -> bool:
        self.taken += 1
        return True

    def send_control(self, _frame: bytes, _instead_of: Hashable = None) -> bool:
        self.taken += 1
        return True

    send_output = send_data = send_control

    def missed_output(self) -> bool:
        return False

    def seconds_since_ack(self) -> float:
        return 0.0

    def ping(self) -> None:
        pass

    def charge(self, _cost: float) -> None:
        pass

    def abort(self) -> None:
        pass

    def close(self, _code: int, _reason: str, *, flush: bool = True) -> None:
        pass


class Job:
    """A broker with so many ranks and a terminal that lists them; its clock moves when the test moves it."""

    def __init__(self, size: int, ranks_of_host: int) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        timers = Timers(lambda: self.now, self._schedule, lambda: self.now, lambda: self.now)
        welcomes = Welcomes(timers.clock, host="login1", pid=1)
        self.parts = Broker(timers, Tokens(rank="r", driver="d", watcher="w"), welcomes, kernel=None)
        self.registrations = [
            registration(n, host=host, key=f"4711.0/0.0/{host}:{n}/{n}", world_size=size, pid=n + 1)
            for n in range(size)
            for host in [f"gpu{n // ranks_of_host}"]
        ]
        self.keys = tuple(one.identity.key for one in self.registrations)
        peer = Peer(10 * size)
        self.terminal = self.parts.terminals.link(cast(Connection, peer), Bearer(role=Role.DRIVER))
        self.parts.terminals.receive(self.terminal, Greet(minor=0, release="0.1.0", name="me"))
        self.parts.terminals.receive(self.terminal, Subscribe())
        self.links = [self.parts.from_ranks.link(Peer(n + 1)) for n in range(size)]

    def _schedule(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._order), call))

    def pass_time(self, seconds: float) -> None:
        """Make all calls that are due within so many seconds, with a sweep each second."""
        ends = self.now + seconds
        while self._due and self._due[0][0] <= ends:
            self.now, _, call = heapq.heappop(self._due)
            call()
        self.now = ends
        self.parts.sweep(self.now)

    def receive_all(self, messages: Iterator[Message]) -> None:
        for link, message in zip(self.links, messages, strict=True):
            self.parts.from_ranks.receive(link, message)
        for _ in range(5):
            self.pass_time(1.0)

    def life(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield what happens to the job, in its order."""
        yield "come", lambda: self.receive_all(iter(self.registrations))
        yield "go on", lambda: self.receive_all(Report(report=RUNNING) for _ in self.keys)
        yield "stop", lambda: self.receive_all(Report(report=STOPPED) for _ in self.keys)
        yield "stop for good", lambda: self.receive_all(Report(report=KEPT) for _ in self.keys)
        yield "are held", lambda: self.receive_all(Report(report=HELD if n else CHOSEN) for n in range(len(self.keys)))
        yield "list", lambda: self.parts.terminals.receive(self.terminal, Subscribe())
        yield "are asked", self._ask
        yield (
            "answer",
            lambda: self.receive_all(answer_to(1, Kind.VALUE, f"{n}") for n in range(len(self.keys))),
        )
        yield "end", lambda: self.receive_all(Goodbye(exit=n % 2) for n in range(len(self.keys)))
        yield "leave", self._leave

    def _ask(self) -> None:
        question = Question(request=7, keys=self.keys, action=Action.WHERE, seconds=60.0)
        self.parts.terminals.receive(self.terminal, question)
        self.pass_time(1.0)

    def _leave(self) -> None:
        for link in self.links:
            self.parts.from_ranks.left(link)
        for _ in range(5):
            self.pass_time(3600.0)


def calls_in_life(size: int, ranks_of_host: int) -> dict[str, int]:
    job = Job(size, ranks_of_host)
    return {name: calls_of(step) for name, step in job.life()}


@pytest.mark.parametrize("ranks_of_host", [8, 2 * FEW])
def test_twice_the_ranks_take_twice_the_work(ranks_of_host: int) -> None:
    few, many = calls_in_life(FEW, ranks_of_host), calls_in_life(2 * FEW, ranks_of_host)
    growth = {name: many[name] / few[name] for name in few}
    assert {name: ratio for name, ratio in growth.items() if ratio > 2.3} == {}, growth
