"""Messages to other brokers that can't be sent."""

from __future__ import annotations

from collections.abc import Callable

from dbg_broker.cluster.nats import MAX_WAITING, Nats, Servers
from dbg_broker.timers import Timers


def test_all_is_resent_once_after_dropped_messages() -> None:
    scheduled: list[Callable[[], None]] = []
    nats = Nats(Servers(("nats://h1",), {}), "one", Timers(lambda: 0.0, lambda _, call: scheduled.append(call)))
    calls: list[int] = []
    nats.is_back = lambda: calls.append(1)

    for _ in range(MAX_WAITING + 1000):
        nats.publish("subject", b"")
    assert len(scheduled) == 1
    scheduled.pop()()
    assert calls == [1]
    nats.publish("subject", b"")
    assert len(scheduled) == 1
