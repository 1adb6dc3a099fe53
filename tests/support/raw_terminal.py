"""A terminal without a screen at a real broker, which sends and receives messages of the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from dbg_wire import subprotocol
from dbg_wire.messages import Change, Greet, Sender, Snapshot, Subscribe, Welcome
from dbg_wire.records.ranks import RankInfo
from tests.support.broker import RunningBroker
from tests.unit.broker.peers import Peer, cut, trusting_context


@asynccontextmanager
async def raw_terminal(broker: RunningBroker) -> AsyncIterator[Peer]:
    """Connect with the driver's token, and subscribe to the list of ranks."""
    token = broker.tokens["driver"]
    websocket = await connect(
        f"{broker.url}/client",
        additional_headers={"Authorization": f"Bearer {token}"},
        subprotocols=[Subprotocol(subprotocol())],
        ssl=trusting_context(),
        ping_interval=None,
    )
    try:
        peer = Peer(websocket, Sender.CLIENT)
        await peer.send(Greet(minor=0, release="0.1.0", name="me@here"))
        await peer.expect(Welcome)
        await peer.send(Subscribe())
        yield peer
    finally:
        await cut(websocket)


async def listed(peer: Peer, so_that: Callable[[RankInfo], bool]) -> RankInfo:
    while True:
        message = await peer.next()
        ranks = message.ranks if isinstance(message, Snapshot) else ()
        ranks = (message.rank,) if isinstance(message, Change) else ranks
        for rank in ranks:
            if so_that(rank):
                return rank
