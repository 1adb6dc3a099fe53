"""Brokers of one cluster in this process: hubs without sockets, joined by buses in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dbg_broker.hub.cluster.cluster import Cluster
from dbg_broker.hub.cluster.members import Presence
from dbg_broker.hub.state import Hub
from dbg_broker.net.connections import Connections
from dbg_broker.timers import Timers
from tests.support.memory_bus import MemoryNats

TURNS = 200
"""Turns of the loop in which all that was begun has ended, as nothing here waits for a socket."""


def presence(name: str, site: str = "site") -> Presence:
    """Return what a broker tells of itself."""
    return Presence(
        name=name, url=f"wss://{name}:6900", fingerprints=(), host=name, pid=1, release="1", started=5.0, site=site
    )


def new_cluster(nats: MemoryNats, name: str, clock: Callable[[], float] | None = None) -> Cluster:
    """Return another broker's part in the cluster, with a hub of its own; for use in a running loop."""
    loop = asyncio.get_running_loop()
    timers = Timers(clock or loop.time, loop.call_later)
    return join_cluster(Hub(timers, Connections(timers), host=name, pid=1, kernel=None), nats, name)


def join_cluster(hub: Hub, nats: MemoryNats, name: str) -> Cluster:
    """Make a broker one of the cluster."""
    hub.cluster = Cluster(hub, nats.join(name), presence(name))
    return hub.cluster


async def joined(nats: MemoryNats, *names: str) -> list[Cluster]:
    """Return brokers that know each other."""
    clusters = [new_cluster(nats, name) for name in names]
    for cluster in clusters:
        await cluster.begin()
    await settled()
    return clusters


async def settled() -> None:
    """Return when all that has been begun is done."""
    for _ in range(TURNS):
        await asyncio.sleep(0)
