"""Messages and buckets over a real server of NATS, which stops and comes back."""

from __future__ import annotations

import asyncio

import pytest

from dbg_broker.net.bus import bus as bus_module
from dbg_broker.net.bus.buckets import BucketName, BusDown, Conflict, Entry
from dbg_broker.net.bus.bus import Bus
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
        assert await two.event() == "down"
        nats.start()
        assert [await one.event(), await two.event()] == ["up", "up"]
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


RANKS = BucketName.RANKS


async def test_a_write_with_an_old_revision_is_refused_and_says_what_is_there(nats: NatsServers) -> None:
    async with ends(nats, "one", "two") as (one, two):
        mine, theirs = one.bus.buckets, two.bus.buckets
        first = await mine.write(RANKS, "a", b"1", last=0)
        assert await theirs.read(RANKS, "a") == Entry(b"1", first)
        with pytest.raises(Conflict) as refused:
            await theirs.write(RANKS, "a", b"2", last=0)
        assert refused.value.entry == Entry(b"1", first)
        second = await theirs.write(RANKS, "a", b"2", last=first)
        assert second > first
        third = await mine.write(RANKS, "a", b"3")
        assert await mine.read(RANKS, "a") == Entry(b"3", third)


async def test_without_nats_a_call_fails_and_after_it_the_watch_goes_on_with_empty_buckets(nats: NatsServers) -> None:
    told: list[bytes | None] = []

    def watch(bus: Bus) -> None:
        bus.buckets.watch(BucketName.BROKERS, "*", lambda key, value: told.append(value))

    async with ends(nats, "one", before=watch) as (one,):
        buckets = one.bus.buckets
        await buckets.write(RANKS, "c", b"1")
        nats.stop()
        with pytest.raises(BusDown):
            await buckets.write(RANKS, "c", b"2")
        nats.start()
        await once(lambda: bool(told), lambda: one.bus.announce(BucketName.BROKERS, "one", b"here"))
        assert await buckets.read(RANKS, "c") is None
        assert await buckets.write(RANKS, "c", b"1", last=0) == 1


async def test_what_is_forgotten_is_gone_unless_it_is_newer_and_revisions_go_on(nats: NatsServers) -> None:
    async with ends(nats, "one") as (one,):
        buckets = one.bus.buckets
        first = await buckets.write(RANKS, "b", b"1")
        newer = await buckets.write(RANKS, "b", b"2")
        await buckets.forget(RANKS, "b", first)
        assert await buckets.read(RANKS, "b") == Entry(b"2", newer)
        await buckets.forget(RANKS, "b", newer)
        assert await buckets.read(RANKS, "b") is None
        assert await buckets.write(RANKS, "b", b"3", last=0) > newer


async def test_changes_are_told_to_who_watches(nats: NatsServers) -> None:
    told: asyncio.Queue[tuple[str, bytes | None]] = asyncio.Queue()

    def watch(bus: Bus) -> None:
        bus.buckets.watch(BucketName.BROKERS, "*", lambda key, value: told.put_nowait((key, value)))
        bus.buckets.watch(BucketName.TOKENS, "issued", lambda key, value: told.put_nowait((key, value)))

    async with ends(nats, "two", before=watch) as (two,), ends(nats, "one") as (one,):
        await one.bus.buckets.make()
        await one.bus.buckets.write(BucketName.BROKERS, "one", b"here")
        await one.bus.buckets.write(BucketName.TOKENS, "other", b"unseen")
        await one.bus.buckets.write(BucketName.TOKENS, "issued", b"list")
        one.bus.announce(BucketName.BROKERS, "one", None)
        assert [await told.get() for _ in range(3)] == [("one", b"here"), ("issued", b"list"), ("one", None)]
        assert await two.bus.buckets.entries(BucketName.BROKERS) == {}
