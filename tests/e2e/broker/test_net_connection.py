"""Handshakes that the broker refuses, and the end of peers that break the protocol, over real sockets."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from websockets.protocol import State
from websockets.server import ServerProtocol

from dbg_broker.net import websocket
from dbg_broker.net.http import Request
from tests.unit.broker.peers import Broker


async def test_a_connection_has_no_object_of_the_library_and_keeps_no_request(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ServerProtocol] = []

    def make(**options: Any) -> ServerProtocol:
        made.append(ServerProtocol(**options))
        return made[-1]

    monkeypatch.setattr(websocket, "ServerProtocol", make)
    rank = await broker.rank()
    await (await rank.websocket.ping(b"there?"))
    assert made == []
    gc.collect()
    # Its type is compared: isinstance() asks each object of the process for its class, and some of torch's warn then.
    kept = [thing for thing in gc.get_objects() if type(thing) is Request]
    assert kept == []
    await rank.websocket.close()
    assert [one.state for one in made] == [State.CLOSED]
