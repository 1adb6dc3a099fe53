"""Brokers of one cluster in this process: hubs without sockets, joined by buses in memory."""

from __future__ import annotations

import asyncio

from dbg_broker.hub.cluster.cluster import Cluster
from dbg_broker.hub.cluster.members import Presence
from dbg_broker.hub.state import Hub
from dbg_broker.net.connections import Connections
from dbg_broker.timers import Timers
from tests.support.memory_bus import MemoryNats


def new_cluster(nats: MemoryNats, name: str) -> Cluster:
    """Return another broker's part in the cluster, with a hub of its own; for use in a running loop."""
    loop = asyncio.get_running_loop()
    timers = Timers(loop.time, loop.call_later)
    hub = Hub(timers, Connections(timers), host=name, pid=1, kernel=None)
    own = Presence(name=name, url=f"wss://{name}:6900", fingerprints=(), host=name, pid=1, release="1", started=0.0)
    hub.cluster = Cluster(hub, nats.join(name), own)
    return hub.cluster
