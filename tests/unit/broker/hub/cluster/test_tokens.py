"""Issued tokens over several brokers: what one has issued or revoked holds at all, whatever was away meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import pytest

from dbg_broker.home.bearer import Role
from dbg_broker.home.issued import IssuedToken, IssuedTokens, format_issued
from dbg_broker.home.tokens import Tokens, digest_of
from dbg_broker.hub.cluster.tokens import ISSUED_KEY, SharedTokens, UnreadableList
from dbg_broker.net.bus.buckets import BucketName, BusDown
from dbg_broker.net.bus.connection import NatsConnection
from dbg_broker.net.websocket import CloseCode
from dbg_dial.waiting import within
from dbg_wire.errors import BadSecretFile
from dbg_wire.messages import Greet, Sender, Welcome
from tests.conftest import Approved
from tests.support.memory_bus import MemoryNats
from tests.support.time_unit import seconds
from tests.unit.broker.hub.cluster.brokers import settled
from tests.unit.broker.hub.cluster.several import Several
from tests.unit.broker.peers import Broker, Peer

ALICE = IssuedToken(name="alice", role=Role.WATCHER, digest=digest_of("alice"), made=1.0)
BOB = IssuedToken(name="bob", role=Role.DRIVER, digest=digest_of("bob"), made=2.0)


class Site:
    """One broker's home and what it knows of the tokens."""

    def __init__(self, nats: MemoryNats, name: str, home: IssuedTokens | None = None) -> None:
        self.home = home or IssuedTokens()
        self.own = Tokens(rank="r", driver="d", watcher="w", issued=self.home)
        self.bus = nats.join(name)
        self.shared = SharedTokens(self.bus.buckets)
        self.shared.keep = self._keep
        self.shared.use = self._use
        self.tokens = self.shared.joined(self.own)
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def _keep(self, issued: IssuedTokens) -> IssuedTokens:
        self.home = self.home.joined(issued)
        self._loop.call_soon_threadsafe(self._changed.set)
        return self.home

    def _use(self) -> None:
        self.tokens = self.shared.joined(self.own)
        self._changed.set()

    async def begin(self) -> None:
        """Bring home and bucket together, as at a broker's start."""
        self.shared.watch()
        self.bus.buckets.watch(BucketName.TOKENS, ISSUED_KEY, lambda key, value: self._changed.set())
        await self.shared.exchange()

    def change(self, change: Callable[[IssuedTokens], IssuedTokens]) -> None:
        """Change the home as ``dbg-broker token`` does, and have the broker read it."""
        self.home = change(self.home)
        self.own = replace(self.own, issued=self.home)
        self.tokens = self.shared.joined(self.own)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of what is used or kept here."""
        while not holds():
            self._changed.clear()
            await within(seconds(10), self._changed.wait())


def names(site: Site) -> list[str]:
    return [one.name for one in site.tokens.issued.tokens]


async def three(nats: MemoryNats) -> tuple[Site, Site, Site]:
    one, two, three = (Site(nats, name) for name in ("one", "two", "three"))
    for site in (one, two, three):
        await site.begin()
    return one, two, three


async def test_what_one_broker_issues_and_revokes_holds_at_all_and_is_in_their_homes() -> None:
    sites = await three(MemoryNats())
    sites[0].change(lambda home: home.issue(ALICE))
    await sites[0].shared.exchange()
    for site in sites:
        await site.until(lambda site=site: names(site) == ["alice"] and site.home.tokens == (ALICE,))  # type: ignore[misc]
        assert site.tokens.bearer_of("Bearer alice") is not None
    sites[2].change(lambda home: home.revoke("alice", 5.0))
    await sites[2].shared.exchange()
    for site in sites:
        await site.until(lambda site=site: names(site) == [] and len(site.home.revoked) == 1)  # type: ignore[misc]
        assert not site.tokens.still_know(ALICE.bearer)


async def test_lists_of_homes_that_differ_are_joined_as_brokers_come() -> None:
    nats = MemoryNats()
    one = Site(nats, "one", IssuedTokens((ALICE,)))
    await one.begin()
    # It was away while bob's token was issued in its home, and alice's revoked.
    two = Site(nats, "two", IssuedTokens((ALICE, BOB)).revoke("alice", 3.0))
    await two.begin()
    await one.until(lambda: names(one) == ["bob"])
    await one.until(lambda: one.home == two.home)


async def test_nats_comes_back_empty_and_has_all_again() -> None:
    nats = MemoryNats()
    one, two, _ = await three(nats)
    one.change(lambda home: home.issue(ALICE))
    await one.shared.exchange()
    await two.until(lambda: names(two) == ["alice"])
    nats.go()
    one.change(lambda home: home.revoke("alice", 3.0))
    with pytest.raises(BusDown):
        await one.shared.exchange()
    two.change(lambda home: home.issue(BOB))
    assert (names(one), names(two)) == ([], ["alice", "bob"])
    nats.come()
    # The other one has alice's token, and doesn't bring it back.
    for site in (two, one):
        site.bus.buckets.connection = cast(NatsConnection, object())
        site.shared.sweep(1.0)
    for site in (one, two):
        await site.until(lambda site=site: names(site) == ["bob"])  # type: ignore[misc]
    await one.until(lambda: nats.entries[BucketName.TOKENS][ISSUED_KEY].value == format_issued(one.home).encode())


async def test_a_revocation_holds_before_a_disk_has_it() -> None:
    one, two, _ = await three(MemoryNats())
    one.change(lambda home: home.issue(ALICE))
    await one.shared.exchange()
    await two.until(lambda: names(two) == ["alice"])

    def broken(issued: IssuedTokens) -> IssuedTokens:
        raise BadSecretFile("the home can't be written (No space left on device)", "make room there")

    two.shared.keep = broken
    one.change(lambda home: home.revoke("alice", 3.0))
    await one.shared.exchange()
    await two.until(lambda: names(two) == [])
    # Its own home still has the token, and a reload reads that.
    two.tokens = two.shared.joined(replace(two.own, issued=IssuedTokens((ALICE,))))
    assert names(two) == []


async def dialled(broker: Broker, token: str) -> Peer:
    """Return a terminal with a token that was made for somebody."""
    peer = Peer(await broker.dial("/client", token), Sender.CLIENT)
    await peer.say(Greet(minor=0, release="0.1.0", name=f"{token}@login1"))
    await peer.expect(Welcome)
    return peer


async def test_a_revoked_token_ends_its_connections_at_all_brokers_before_their_next_heartbeat(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat comes each second: what does not wait for one takes less than that."""
    beats = Counter[str]()
    for bus in several.nats.buses.values():
        monkeypatch.setattr(bus, "beat", partial(beats.update, [bus.name]))
    with_alice = replace(several.brokers[0].tokens, issued=IssuedTokens((ALICE,)))
    for broker, cluster in zip(several.brokers, several.clusters, strict=True):
        cluster.tokens.use = partial(broker.reception.use, with_alice)
        broker.reception.use(with_alice)
    await several.clusters[0].tokens.exchange()
    terminals = [await dialled(broker, "alice") for broker in several.brokers for _ in range(2)]
    beats.clear()
    several.brokers[0].reception.use(replace(with_alice, issued=with_alice.issued.revoke("alice", 3.0)))
    several.clusters[0].tokens.share(lambda why: None)
    assert [(await one.closed())[0] for one in terminals] == [CloseCode.REVOKED] * 6
    assert max(beats.values(), default=0) <= 1


async def test_a_list_that_can_not_be_read_changes_nothing_and_is_told_of(
    approved: Approved, caplog: pytest.LogCaptureFixture
) -> None:
    nats = MemoryNats()
    one = Site(nats, "one", IssuedTokens((ALICE,)))
    await one.begin()
    for garbage in (b"\xff" * 1000, b"[" * 100_000, b'{"schema":2}', b'{"tokens":[{}]}'):
        nats.write(BucketName.TOKENS, ISSUED_KEY, garbage)
        # The exchange that this begins comes before the test's own.
        await settled()
        with pytest.raises(UnreadableList):
            await one.shared.exchange()
        approved(caplog.text)
        caplog.clear()
        assert names(one) == ["alice"]
    # As the sentence says.
    nats.entries[BucketName.TOKENS].clear()
    nats.tell(BucketName.TOKENS, ISSUED_KEY, None)
    await one.until(lambda: ISSUED_KEY in nats.entries[BucketName.TOKENS])


async def test_who_changes_a_token_is_told_whether_the_others_were(approved: Approved) -> None:
    nats = MemoryNats()
    one, _, _ = await three(nats)
    said: asyncio.Queue[str] = asyncio.Queue()
    one.shared.share(said.put_nowait)
    assert await said.get() == ""
    nats.is_up = False
    one.shared.share(said.put_nowait)
    approved(await said.get())
