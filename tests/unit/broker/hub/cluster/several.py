"""Several brokers in this process, with sockets for ranks and terminals, and buses in memory between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from dbg_broker.hub.cluster.cluster import Cluster
from dbg_wire.records.ranks import RankState
from tests.support.memory_bus import MemoryNats
from tests.unit.broker.hub.cluster.brokers import presence
from tests.unit.broker.peers import SECONDS, Broker, registration, running_broker


def key(number: int) -> str:
    """Return the key of the rank of this number."""
    return registration(number).identity.key


class Several:
    """Brokers ``one``, ``two`` and ``three``; the ranks of the tests are by their numbers at the brokers."""

    def __init__(self, nats: MemoryNats, brokers: list[Broker], clusters: list[Cluster]) -> None:
        self.nats = nats
        self.brokers, self.clusters = brokers, clusters

    async def until(self, so_that: Callable[[], bool]) -> None:
        """Wait until something holds in one of the brokers, which all run in this loop."""

        async def wait() -> None:
            # All brokers run in this loop, and any of its turns may have brought it about.
            while not so_that():  # noqa: ASYNC110
                await asyncio.sleep(0)

        await asyncio.wait_for(wait(), SECONDS)

    async def listed(self, number: int, *states: RankState) -> None:
        """Wait until all brokers list a rank, in one of these states."""

        def is_listed(broker: Broker) -> bool:
            rank = broker.hub.ranks.registry.find(key(number))
            return rank is not None and (not states or rank.state in states)

        await self.until(lambda: all(is_listed(broker) for broker in self.brokers))

    def kill(self, number: int) -> None:
        """Have a broker be gone for the others, as one that was killed; its peers' connections end."""
        gone = self.clusters[number]
        self.nats.buses[gone.name].leave()
        for cluster in self.clusters:
            if cluster is not gone:
                cluster.members.left(gone.name)


@asynccontextmanager
async def several_brokers(path: Path, names: tuple[str, ...] = ("one", "two", "three")) -> AsyncIterator[Several]:
    """Run brokers that have seen each other."""
    nats = MemoryNats()
    async with AsyncExitStack() as stack:
        brokers, clusters = [], []
        for name in names:
            broker = await stack.enter_async_context(running_broker(path))
            own = presence(name).replace(url=broker.endpoint.url)
            broker.hub.cluster = cluster = Cluster(broker.hub, nats.join(name), own)
            brokers.append(broker)
            clusters.append(cluster)
            await cluster.begin()
            stack.push_async_callback(cluster.end)
        several = Several(nats, brokers, clusters)
        await several.until(lambda: all(len(cluster.members) == len(names) - 1 for cluster in clusters))
        yield several
