from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dbg_client.core.connection import Connection
from dbg_client.core.link import BrokerLink, Down, Up
from dbg_dial.find import Opening
from dbg_wire.errors import BrokerUnreachable, Busy, DbgError, NoBroker, WrongToken
from dbg_wire.finding.endpoint import Reach
from dbg_wire.messages import BrokerAddress, Snapshot, Subscribe, Take
from tests.support.time_unit import seconds
from tests.unit.client.core.test_connection import Listener, certified, reach
from tests.unit.client.fake_broker import FakeBroker, make_rank

PATIENCE = seconds(10)


class Where:
    """The present address of the broker, as broker.json names it."""

    def __init__(self, reach: Reach) -> None:
        self.reach: Reach | DbgError = reach
        self.asked = 0

    def __call__(self, opening: Opening) -> Reach:
        self.asked += 1
        if isinstance(self.reach, DbgError):
            raise self.reach
        return self.reach


async def until_up(link: BrokerLink) -> list[str]:
    """Wait until the link is up; return the reasons of the failures before."""
    reasons = []
    while not isinstance(event := await asyncio.wait_for(link.next(), PATIENCE), Up):
        if isinstance(event, Down):
            reasons.append(event.reason)
    return reasons


async def test_a_line_subscribes_each_time_it_stands() -> None:
    with FakeBroker(make_rank()) as broker:
        link = BrokerLink(Where(reach(broker.port)), "me@here", PATIENCE)
        await link.open()
        assert isinstance(await link.next(), Snapshot)

        broker.cut()
        assert isinstance(await link.next(), Down)
        await until_up(link)
        assert isinstance(await link.next(), Snapshot)
        await broker.heard(Subscribe, count=2)
        await link.close()


async def test_the_first_dial_says_what_is_wrong() -> None:
    with FakeBroker() as broker:
        port = broker.port
    link = BrokerLink(Where(reach(port)), "me@here", PATIENCE)

    with pytest.raises(BrokerUnreachable):
        await link.open()


async def test_a_broker_on_another_port_is_found() -> None:
    with FakeBroker() as first, FakeBroker() as second:
        where = Where(reach(first.port))
        link = BrokerLink(where, "me@here", PATIENCE)
        await link.open()

        where.reach = reach(second.port)
        first.stop()
        await until_up(link)

        link.send(Take())
        await second.heard(Take)
        await link.close()


async def test_while_the_line_is_down_nothing_is_sent_and_the_caller_knows() -> None:
    with FakeBroker() as broker:
        link = BrokerLink(Where(reach(broker.port)), "me@here", PATIENCE)
        await link.open()
        assert link.send(Take())
        await broker.heard(Take)
        broker.stop()
        while not isinstance(await link.next(), Down):
            pass

        assert not link.send(Take())
        await link.close()


async def test_a_connection_that_broke_is_closed_with_a_link_that_is_given_up_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    close, closed, begun = Connection.close, list[Connection](), asyncio.Event()

    async def close_slowly(connection: Connection) -> None:
        closed.append(connection)
        if len(closed) == 1:
            begun.set()
            await asyncio.Event().wait()
        await close(connection)

    monkeypatch.setattr(Connection, "close", close_slowly)
    with FakeBroker() as broker:
        link = BrokerLink(Where(reach(broker.port)), "me@here", PATIENCE)
        await link.open()
        assert isinstance(await link.next(), Snapshot)
        reading = asyncio.create_task(link.next())
        broker.cut()
        await asyncio.wait_for(begun.wait(), PATIENCE)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await link.close()
    assert closed == [closed[0]] * 2


async def test_an_impostor_in_the_brokers_place_gets_nothing_and_is_named() -> None:
    context, fingerprint = certified()
    other_context, _ = certified()
    with FakeBroker(tls=context) as broker:
        where = Where(reach(broker.port, fingerprint))
        link = BrokerLink(where, "me@here", PATIENCE)
        await link.open()
        broker.stop()
        impostor = Listener(tls=other_context)
        where.reach = reach(impostor.port, fingerprint)

        reasons: list[str] = []
        while not any("not the broker that was pinned" in reason for reason in reasons):
            event = await asyncio.wait_for(link.next(), PATIENCE)
            assert not isinstance(event, Up)
            if isinstance(event, Down):
                reasons.append(event.reason)

        assert await asyncio.to_thread(impostor.ended.wait, PATIENCE)
        assert impostor.received == b""
        with FakeBroker(tls=context) as again:
            where.reach = reach(again.port, fingerprint)
            await until_up(link)
            await link.close()


async def test_attempts_become_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        pauses.append((low, high))
        return 0.0

    monkeypatch.setattr("dbg_client.core.link.random.uniform", uniform)
    with FakeBroker() as broker:
        port = broker.port
    link = BrokerLink(Where(reach(port)), "me@here", PATIENCE)

    for _ in range(8):
        assert isinstance(await link.next(), Down)

    longest = [high for _, high in pauses]
    assert longest == sorted(longest)
    assert {low for low, _ in pauses} == {0}
    assert longest[-1] == longest[-2] == 1.5


def named(broker: FakeBroker) -> BrokerAddress:
    return BrokerAddress(url=f"ws://127.0.0.1:{broker.port}")


async def test_the_next_broker_is_dialled_at_once_if_one_is_gone() -> None:
    with FakeBroker(make_rank()) as first, FakeBroker(make_rank()) as second:
        where = Where(replace(reach(first.port), others=(reach(second.port).endpoint,)))
        link = BrokerLink(where, "me@here", PATIENCE)
        await link.open()
        await first.heard(Subscribe)
        first.stop()
        # No attempt fails: a dial goes through all brokers before it gives up.
        assert await until_up(link) == ["the connection broke"]
        await second.heard(Subscribe)
        await link.close()


async def test_a_welcome_teaches_the_others_and_they_are_found_without_the_file_that_named_the_first() -> None:
    with FakeBroker(make_rank()) as first, FakeBroker(make_rank()) as second:
        first.brokers = named(first), named(second)
        where = Where(reach(first.port))
        link = BrokerLink(where, "me@here", PATIENCE)
        await link.open()
        first.stop()
        where.reach = NoBroker()
        await until_up(link)
        await second.heard(Subscribe)
        await link.close()


async def test_of_several_brokers_that_all_fail_the_first_is_named_with_the_number_of_the_others() -> None:
    with FakeBroker() as first, FakeBroker() as second:
        where = replace(reach(first.port), others=(reach(second.port).endpoint,))
    with pytest.raises(BrokerUnreachable, match=f"{first.port} .*and 1 others fail, too"):
        await BrokerLink(Where(where), "me@here", PATIENCE).open()


async def test_a_broker_that_refuses_the_token_is_named_before_one_that_is_away() -> None:
    with FakeBroker(token="insecure-another-token") as refuses, FakeBroker() as away:  # noqa: S106 - opens nothing
        away.stop()
        where = replace(reach(away.port), others=(reach(refuses.port).endpoint,))
        with pytest.raises(WrongToken):
            await BrokerLink(Where(where), "me@here", PATIENCE).open()


async def test_a_suspended_broker_leaves_the_others_their_part_of_the_time() -> None:
    suspended = Listener()
    with FakeBroker(make_rank()) as second:
        where = Where(replace(reach(suspended.port), others=(reach(second.port).endpoint,)))
        link = BrokerLink(where, "me@here", seconds(2))
        await link.open()
        await second.heard(Subscribe)
        await link.close()


async def test_a_terminal_comes_again_when_a_busy_broker_says() -> None:
    with FakeBroker(make_rank()) as broker:
        broker.busy = 2
        link = BrokerLink(Where(reach(broker.port)), "me@here", PATIENCE)
        await link.open()
        await broker.heard(Subscribe)
        assert broker.busy == 0
        await link.close()


async def test_a_broker_that_is_busy_for_longer_than_the_user_waits_says_so() -> None:
    with FakeBroker() as broker:
        broker.busy = 100
        with pytest.raises(Busy, match="is busy: come again"):
            await BrokerLink(Where(reach(broker.port)), "me@here", seconds(1)).open()
