"""Who takes the place of a rank, and what becomes of a token."""

from __future__ import annotations

import gc
import time
from dataclasses import replace

import pytest

from dbg_broker.admission import MAX_TIMER_SECONDS
from dbg_broker.home.tokens import IssuedToken, IssuedTokens, Role, digest_of
from dbg_broker.net.peer import Peer as Connection
from dbg_broker.net.websocket import CloseCode
from dbg_wire import limits
from dbg_wire.codec import Input
from dbg_wire.messages import Finding, Goodbye, Greet, Mode, Refusal, RefusalCode, Seat, Sender, Welcome
from dbg_wire.messages import GuardReport as GuardsWord
from dbg_wire.records.ranks import RankState
from tests.unit.broker.peers import Broker, Peer, attach, registration

UNKNOWN = "a-token-of-nobody-that-is-as-long-as-any-token"

ALICE = IssuedToken(name="alice", role=Role.WATCHER, digest=digest_of("alice"), made=1.0)


KEY = registration().identity.key
SECRET, OTHER = "0" * 32, "1" * 32


async def knocking(broker: Broker) -> Peer:
    return Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)


async def turned_away(peer: Peer) -> None:
    assert (await peer.expect(Refusal)).code == RefusalCode.TAKEN
    assert (await peer.closed())[0] == CloseCode.DONE


@pytest.mark.parametrize("secret", ["", OTHER])
async def test_another_process_cannot_replace_a_connected_one(broker: Broker, secret: str) -> None:
    rank = await broker.rank(secret=SECRET)
    driver = await broker.seated(KEY)
    impostor = await knocking(broker)
    await impostor.send(registration(secret=secret))
    await turned_away(impostor)
    await driver.send(Input(session=1, stop=1, generation=1, offset=0, data=b"n"))
    keys = await rank.expect_data()
    assert isinstance(keys, Input)
    assert keys.data == b"n"


async def test_process_reconnects_with_its_secret(broker: Broker) -> None:
    await broker.rank(secret=SECRET)
    driver = await broker.seated(KEY)
    again = await knocking(broker)
    await again.send(registration(secret=SECRET))
    await again.expect(Welcome)
    await driver.expect(Seat)


@pytest.mark.parametrize("state", [RankState.LOST, RankState.EXITED])
async def test_driver_must_attach_again_before_keys_reach_a_replacement_process(
    broker: Broker, state: RankState
) -> None:
    first = await broker.rank(secret=SECRET)
    driver = await broker.seated(KEY)
    if state is RankState.EXITED:
        await first.send(Goodbye(exit=0))
    await first.cut()
    await broker.left(lambda parts: parts.ranks.registry.counts[state] == 1)
    second = await broker.rank(secret=OTHER)
    assert (await driver.expect(Refusal)).code == RefusalCode.GONE
    await driver.send(Input(session=1, stop=1, generation=1, offset=0, data=b"rm"))
    assert (await driver.expect(Refusal)).code == RefusalCode.NOT_ATTACHED
    await driver.send(attach(KEY, Mode.DRIVE))
    seat = await driver.expect(Seat)
    await driver.send(Input(session=1, stop=1, generation=seat.generation or 0, offset=0, data=b"n"))
    keys = await second.expect_data()
    assert isinstance(keys, Input)
    assert keys.data == b"n"


async def test_process_on_a_silent_host_is_replaced(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    await broker.rank(secret=SECRET)
    guard = await knocking(broker)
    await guard.send(GuardsWord(minor=0, key=KEY, kind=Finding.CALLED, secret=SECRET))
    await guard.expect(Welcome)
    connection = broker.parts.ranks.links[KEY].connection
    monkeypatch.setattr(type(connection), "seconds_since_ack", lambda _: limits.SILENT_SECONDS)
    second = await knocking(broker)
    await second.send(registration(secret=OTHER))
    await second.expect(Welcome)
    assert broker.parts.ranks.links[KEY].connection is not connection
    assert not broker.parts.ranks.guards


async def test_only_the_guard_of_a_process_can_report_for_it(broker: Broker) -> None:
    await broker.rank(secret=SECRET)
    for secret in ("", OTHER):
        impostor = await knocking(broker)
        await impostor.send(GuardsWord(minor=0, key=KEY, kind=Finding.ENDED, signal=9, secret=secret))
        await turned_away(impostor)
    assert broker.parts.ranks.registry.counts[RankState.STOPPED] == 1
    guard = await knocking(broker)
    await guard.send(GuardsWord(minor=0, key=KEY, kind=Finding.ENDED, signal=9, secret=SECRET))
    await guard.closed()
    assert broker.parts.ranks.registry.counts[RankState.EXITED] == 1


async def test_ended_connection_with_an_expiring_token_is_freed(broker: Broker) -> None:
    ends = time.time() + 2 * MAX_TIMER_SECONDS
    broker.parts.admission.use(replace(broker.tokens, issued=IssuedTokens((replace(ALICE, expires=ends),))))
    terminal = Peer(await broker.dial("/client", "alice"), Sender.CLIENT)
    await terminal.send(Greet(minor=0, release="0.1.0", name="alice"))
    await terminal.expect(Welcome)
    (number,) = broker.parts.terminals.links
    await terminal.cut()
    await broker.left(lambda parts: not parts.terminals.links)
    del terminal
    gc.collect()
    assert number not in [each.number for each in gc.get_objects() if type(each) is Connection]
