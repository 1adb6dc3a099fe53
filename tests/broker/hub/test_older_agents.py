"""The broker tells its longest lease to all peers, and the log says once that an older agent does not know of it."""

from __future__ import annotations

import pytest

from dbg_wire.messages import Sender, Welcome
from dbg_wire.version import MINOR_OF_EVENTS
from tests.broker.peers import Broker, Peer, registration


async def test_an_older_agent_is_told_of_once(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    broker.hub.max_lease = 3600.0
    peer = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    await peer.say(registration(0, minor=MINOR_OF_EVENTS))
    assert (await peer.expect(Welcome)).max_lease == 3600.0
    assert caplog.records == []
    await broker.rank(1, minor=MINOR_OF_EVENTS - 1)
    await broker.rank(2, minor=0)
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith("--max-lease does not hold for gpu013:1 of job 4711.0, nor for other ranks of its release")


async def test_a_broker_without_a_longest_lease_says_nothing(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    await broker.rank(0)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
