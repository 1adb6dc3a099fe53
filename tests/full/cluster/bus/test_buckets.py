"""Buckets in a real server of NATS."""

from __future__ import annotations

import asyncio

import pytest

from dbg_broker.net.bus.buckets import BucketName, BusDown, Conflict, Entry
from dbg_broker.net.bus.bus import Bus
from tests.support.nats_ends import ends, once
from tests.support.nats_servers import NatsServers

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
