"""Messages between brokers over a real server of NATS, which stops and comes back."""

from __future__ import annotations

import pytest

from dbg_broker.net.bus import bus as bus_module
from dbg_broker.net.bus.frames import MAX_MESSAGE_BYTES
from tests.support.nats_ends import ends, once
from tests.support.nats_servers import NatsServers


async def test_messages_of_any_size_come_in_order_and_from_whom_they_say(nats: NatsServers) -> None:
    async with ends(nats, "one", "two", "three") as (one, two, three):
        for size in (0, 10, 700_000, MAX_MESSAGE_BYTES, 5):
            assert one.bus.send("two", bytes(size))
            sender, payload = await two.message()
            assert (sender, len(payload)) == ("one", size)
        for number in range(500):
            one.bus.send("two", b"%d" % number)
        assert [(await two.message())[1] for _ in range(500)] == [b"%d" % number for number in range(500)]
        assert two.bus.publish(b"to all")
        assert await one.message() == await three.message() == ("two", b"to all")
        assert two.events.empty()
        assert one.bus.meters.sent == 505


async def test_nats_that_is_away_for_long_is_told_and_takes_nothing_until_it_is_back(
    nats: NatsServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "GRACE_SECONDS", 0.05)
    async with ends(nats, "one", "two") as (one, two):
        nats.stop()
        assert await one.event() == "down"
        assert not one.bus.is_up
        assert not one.bus.send("two", b"lost")
        nats.start()
        assert await one.event() == "up"
        assert await two.event() == "down"
        assert await two.event() == "up"
        assert one.bus.lost_at is None
        await once(lambda: not two.messages.empty(), lambda: one.bus.send("two", b"again"))
        assert await two.message() == ("one", b"again")


async def test_a_message_that_has_not_come_is_told_by_the_next_beat(nats: NatsServers) -> None:
    async with ends(nats, "one", "two") as (one, two):
        one.bus.send("two", b"first")
        await two.message()
        list(one.bus._sending_to("two").frames(b"lost on its way"))
        one.bus.beat()
        assert await two.event() == "lost one"
        one.bus.send("two", b"next")
        assert await two.message() == ("one", b"next")
        assert two.events.empty()
        assert two.bus.meters.gaps == 1


async def test_more_than_may_wait_is_not_taken(nats: NatsServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "MAX_WAITING_BYTES", 1000)
    async with ends(nats, "one", "two") as (one, two):
        # Within one turn of the loop nothing is written.
        assert one.bus.send("two", bytes(900))
        assert not one.bus.send("two", bytes(200))
        assert one.bus.meters.refused == 1
        assert len((await two.message())[1]) == 900
        assert one.bus.send("two", bytes(200))
        await two.message()
        assert two.events.empty()


async def test_a_connection_that_ends_is_replaced_at_once_and_what_waited_meanwhile_comes(
    nats: NatsServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "GRACE_SECONDS", 3600.0)
    async with ends(nats, "one", "two") as (one, two):
        assert one.bus.buckets.connection is not None
        await one.bus.buckets.connection.close()
        await once(lambda: one.bus.lost_at is not None, lambda: None)
        assert one.bus.is_up
        assert one.bus.send("two", b"while it was away")
        assert await two.message() == ("one", b"while it was away")
        assert one.bus.lost_at is None
        assert two.bus.send("one", b"and back")
        assert await one.message() == ("two", b"and back")
        assert one.events.empty()
        assert two.events.empty()


async def test_what_a_handler_fails_at_is_logged_and_the_next_message_comes(
    nats: NatsServers, caplog: pytest.LogCaptureFixture
) -> None:
    async with ends(nats, "one", "two") as (one, two):
        handlers = two.bus.handlers
        assert handlers is not None
        right = handlers.received

        def wrong(sender: str, payload: bytes) -> None:
            handlers.received = right
            raise LookupError("a fault of the broker")

        handlers.received = wrong
        one.bus.send("two", b"first")
        one.bus.send("two", b"second")
        assert await two.message() == ("one", b"second")
        assert any(record.exc_info for record in caplog.records)
        assert "a fault of the broker" in caplog.text
