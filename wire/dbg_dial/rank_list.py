"""Fast query of a broker's list of ranks, for shell completion and to check if a broker answers.

Messages are plain JSON here, because loading the message classes takes too long for a user who presses Tab.
"""

from __future__ import annotations

import json
from typing import Any

from dbg_dial.connect_errors import explain
from dbg_dial.dial import BrokerWebSocket, dial_broker, resolve_in_this_thread
from dbg_dial.endpoint import Route
from dbg_dial.tcp import within
from dbg_wire import PROTOCOL_MINOR, RELEASE
from dbg_wire.errors import PeerError


async def fetch_rank_list(reach: Route, name: str, *, connect_seconds: float, seconds: float) -> list[dict[str, Any]]:
    """Return the broker's list of ranks, not validated. ``name`` is the client's name in the greeting.

    The DNS lookup of the host blocks this thread. Raise DbgError.
    """
    websocket = await dial_broker(reach, "/client", resolve_in_this_thread, seconds, connect_seconds=connect_seconds)
    try:
        return await within(seconds, _listed(websocket, name))
    except Exception as error:
        raise explain(reach.endpoint.url, error, seconds) from None
    finally:
        websocket.abort()


async def _listed(websocket: BrokerWebSocket, name: str) -> list[dict[str, Any]]:
    ranks: list[dict[str, Any]] = []
    greet = {"type": "greet", "minor": PROTOCOL_MINOR, "release": RELEASE, "name": name}
    for message in (greet, {"type": "subscribe", "once": True}):
        await websocket.send(json.dumps(message))
    while True:
        reply = json.loads(await websocket.recv())
        if reply.get("type") == "refusal":
            raise PeerError("the broker sent a refusal")
        if reply.get("type") == "snapshot":
            ranks += reply["ranks"]
            if reply["last"]:
                return ranks
