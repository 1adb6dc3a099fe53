"""A rank's key belongs to one process: another with the same token neither takes its place nor speaks for its guard."""

from __future__ import annotations

import pytest

from dbg_broker.net.websocket import CloseCode
from dbg_wire import limits
from dbg_wire.codec import Input
from dbg_wire.messages import Finding, Mode, Refusal, RefusalCode, Seat, Sender, Welcome
from dbg_wire.messages import Testimony as GuardsWord
from dbg_wire.records.ranks import RankState
from tests.unit.broker.peers import Broker, Peer, attach, registration

KEY = registration().identity.key
SECRET, OTHER = "0" * 32, "1" * 32


async def knocking(broker: Broker) -> Peer:
    return Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)


async def turned_away(peer: Peer, says: str) -> None:
    refusal = await peer.expect(Refusal)
    assert (refusal.code, says in refusal.text) == (RefusalCode.TAKEN, True)
    assert (await peer.closed())[0] == CloseCode.DONE


@pytest.mark.parametrize("secret", ["", OTHER])
async def test_another_process_does_not_take_the_place_of_one_that_is_there(broker: Broker, secret: str) -> None:
    rank = await broker.rank(secret=SECRET)
    driver = await broker.seated(KEY)
    impostor = await knocking(broker)
    await impostor.say(registration(secret=secret))
    await turned_away(impostor, "another process is gpu013:0 already")
    await driver.send(Input(session=1, stop=1, generation=1, offset=0, data=b"n"))
    keys = await rank.expect_data()
    assert isinstance(keys, Input)
    assert keys.data == b"n"


async def test_the_process_itself_comes_back_with_its_secret(broker: Broker) -> None:
    await broker.rank(secret=SECRET)
    driver = await broker.seated(KEY)
    again = await knocking(broker)
    await again.say(registration(secret=SECRET))
    await again.expect(Welcome)
    await driver.expect(Seat)


async def test_an_agent_of_an_older_release_has_no_secret_and_comes_back(broker: Broker) -> None:
    await broker.rank()
    again = await knocking(broker)
    await again.say(registration())
    await again.expect(Welcome)


async def test_where_the_first_process_is_gone_the_driver_is_asked_before_keys_go_to_the_second(broker: Broker) -> None:
    first = await broker.rank(secret=SECRET)
    driver = await broker.seated(KEY)
    await first.cut()
    await broker.left(lambda hub: hub.ranks.registry.counts[RankState.LOST] == 1)
    second = await broker.rank(secret=OTHER)
    refusal = await driver.expect(Refusal)
    assert (refusal.code, "attach again to reach that one" in refusal.text) == (RefusalCode.GONE, True)
    await driver.send(Input(session=1, stop=1, generation=1, offset=0, data=b"rm"))
    assert (await driver.expect(Refusal)).code == RefusalCode.NOT_ATTACHED
    await driver.say(attach(KEY, Mode.DRIVE))
    seat = await driver.expect(Seat)
    await driver.send(Input(session=1, stop=1, generation=seat.generation or 0, offset=0, data=b"n"))
    keys = await second.expect_data()
    assert isinstance(keys, Input)
    assert keys.data == b"n"


async def test_a_process_whose_host_is_silent_gives_way(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    await broker.rank(secret=SECRET)
    connection = broker.hub.ranks.links[KEY].connection
    monkeypatch.setattr(type(connection), "seconds_since_ack", lambda _: limits.SILENT_SECONDS)
    second = await knocking(broker)
    await second.say(registration(secret=OTHER))
    await second.expect(Welcome)
    assert broker.hub.ranks.links[KEY].connection is not connection


async def test_only_the_guard_of_that_process_speaks_for_it(broker: Broker) -> None:
    await broker.rank(secret=SECRET)
    for secret in ("", OTHER):
        impostor = await knocking(broker)
        await impostor.say(GuardsWord(minor=0, key=KEY, kind=Finding.ENDED, signal=9, secret=secret))
        await turned_away(impostor, "this is not its guard")
    assert broker.hub.ranks.registry.counts[RankState.STOPPED] == 1
    guard = await knocking(broker)
    await guard.say(GuardsWord(minor=0, key=KEY, kind=Finding.ENDED, signal=9, secret=SECRET))
    await guard.closed()
    assert broker.hub.ranks.registry.counts[RankState.EXITED] == 1
