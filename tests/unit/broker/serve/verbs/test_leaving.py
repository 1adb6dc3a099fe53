"""A broker of a run leaves once nobody is connected to it any more."""

from __future__ import annotations

from dbg_broker.serve.serve import IdleShutdown


class Broker:
    """A broker that leaves after 10 s without use; it began at 0."""

    def __init__(self, idle: float | None = 10.0) -> None:
        self.is_used = self.has_left = False
        self.leaving = IdleShutdown(0.0, lambda: self.is_used, self._leave, idle)

    def _leave(self) -> None:
        self.has_left = True

    def leaves(self, now: float) -> bool:
        self.leaving.sweep(now)
        return self.has_left


def test_unused_broker_leaves() -> None:
    broker = Broker()
    assert [broker.leaves(now) for now in (0.0, 9.9, 10.0)] == [False, False, True]


def test_idle_time_restarts_when_the_last_connection_ends() -> None:
    broker = Broker()
    broker.is_used = True
    assert not broker.leaves(50.0)
    broker.is_used = False
    assert [broker.leaves(now) for now in (59.9, 60.0)] == [False, True]


def test_short_connection_restarts_the_idle_time() -> None:
    broker = Broker()
    broker.leaving.used(8.0)
    assert [broker.leaves(now) for now in (17.9, 18.0)] == [False, True]


def test_a_broker_that_was_started_by_hand_does_not_leave() -> None:
    assert not Broker(idle=None).leaves(1e9)
