"""Room in a full broker: watchers give way to drivers, and idle strangers give way to peers with a token."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from websockets.exceptions import InvalidStatus

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.home.tokens import Tokens
from dbg_broker.hub import admission
from dbg_broker.net import places
from dbg_broker.net.websocket import CloseCode
from dbg_wire import limits
from dbg_wire.messages import Audience, Mode, Refusal, RefusalCode, Seat
from tests.unit.broker.peers import SECONDS, Broker, Peer, attach, registration

KEY = registration().identity.key


async def gives_way(watcher: Peer, why: str) -> None:
    """Check that the broker tells this terminal why it is sent away, and closes its connection."""
    refusal = await watcher.expect(Refusal)
    assert refusal.code == RefusalCode.FULL
    assert why in refusal.text
    code, reason = await watcher.closed()
    assert code == CloseCode.GIVES_WAY
    assert reason is not None
    assert why in reason


async def test_a_rank_full_of_watchers_takes_its_driver(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_VIEWERS_PER_RANK", 4)
    rank = await broker.rank()
    watchers = [await broker.seated(KEY, f"{number}@h", Mode.WATCH) for number in range(3)]
    another = await broker.terminal("another@h", Role.WATCHER)
    await another.say(attach(KEY, Mode.WATCH))
    assert (await another.expect(Refusal)).code == RefusalCode.FULL
    driver = await broker.seated(KEY)
    assert (await rank.expect(Audience, lambda audience: audience.driven)).viewers == 4
    second = await broker.terminal("second@h")
    await second.say(attach(KEY, Mode.DRIVE))
    assert (await second.expect(Refusal)).code == RefusalCode.FULL
    await second.say(attach(KEY, Mode.TAKE))
    assert (await second.expect(Seat)).generation == 2
    assert (await driver.expect(Seat, lambda seat: seat.generation is None)).driver == "second@h"
    await gives_way(watchers[-1], "gpu013:0 has as many terminals as it may")
    assert broker.hub.terminals.seats.watchers(KEY) == 3


async def test_the_token_of_one_job_leaves_places_to_ranks_of_others(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "FEW_RANKS", 2)
    broker.hub.connections.rank_places = places.RankPlaces(2)
    first, _ = [await broker.dial("/agent", broker.tokens.for_job("mine")) for _ in range(2)]
    with pytest.raises(InvalidStatus) as refused:
        await broker.dial("/agent", broker.tokens.for_job("mine"))
    assert b"2 ranks use this token already" in (refused.value.response.body or b"")
    await first.close()
    await broker.left(lambda hub: len(hub.links) == 1)
    await broker.dial("/agent", broker.tokens.for_job("mine"))


async def test_a_broker_full_of_watchers_takes_a_driver(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CLIENTS", 8)
    watchers = [await broker.terminal(f"{number}@h", Role.WATCHER) for number in range(7)]
    with pytest.raises(InvalidStatus) as refused:
        await broker.dial("/client", broker.tokens.watcher)
    assert refused.value.response.status_code == 503
    assert b"7 watchers" in (refused.value.response.body or b"")
    drivers = [await broker.terminal(f"driver{number}@h") for number in range(8)]
    for watcher in reversed(watchers):
        await gives_way(watcher, "the broker is full")
    assert len(broker.hub.terminals.links) == len(drivers)


async def test_strangers_of_one_address_leave_room_for_others(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MAX_PENDING", 8)
    monkeypatch.setattr(places, "PATIENCE_SECONDS", 0.0)
    port = broker.endpoint.port
    idle = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)) for _ in range(6)]
    another = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.3", 0))
    idle.append(await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)))
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(idle[0][0].read(), SECONDS) == b""
    assert len(broker.hub.connections.arrivals) == 7
    assert await broker.rank()
    for _, writer in (another, *idle):
        writer.transport.abort()


async def test_one_that_has_just_come_is_not_sent_away_for_the_next(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MAX_PENDING", 2)
    monkeypatch.setattr(places, "PATIENCE_SECONDS", SECONDS)
    ranks = await asyncio.gather(*(broker.rank(number) for number in range(20)))
    assert len(ranks) == 20


async def test_a_rank_is_told_when_to_come_if_those_that_are_admitted_have_not_registered(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "FEW_AT_ONCE", 2)
    monkeypatch.setattr(places, "AT_ONCE_SECONDS", 0.0)
    first, second = [await broker.dial("/agent", broker.tokens.rank) for _ in range(2)]
    with pytest.raises(InvalidStatus) as refused:
        await broker.dial("/agent", broker.tokens.rank)
    answer = refused.value.response
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.body == b"2 ranks are on their way in; come again in 1 s\n"
    # Terminals are few, and get in.
    assert await broker.terminal()
    for peer in (first, second):
        peer.transport.abort()
    await broker.left(lambda hub: not hub.connections.arrivals.admitted)
    assert await broker.rank()


async def test_one_named_token_has_a_share_of_the_places(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_TERMINALS_OF_TOKEN", 2)
    bearers = {name: Bearer(role=Role.WATCHER, digest=name.encode(), name=name) for name in ("alice", "bob")}
    monkeypatch.setattr(Tokens, "bearer_of", lambda _self, header: bearers[(header or "").removeprefix("Bearer ")])
    first = await broker.dial("/client", "alice")
    await broker.dial("/client", "alice")
    with pytest.raises(InvalidStatus) as refused:
        await broker.dial("/client", "alice")
    assert b"2 terminals use the token alice already" in (refused.value.response.body or b"")
    await broker.dial("/client", "bob")
    first.transport.abort()
    await broker.left(lambda hub: len(hub.terminals.links) == 2)
    await broker.dial("/client", "alice")
