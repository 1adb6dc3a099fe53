"""The addresses of all brokers, as home, ranks and terminals are told them."""

from __future__ import annotations

from pathlib import Path

from dbg_wire.finding.endpoint import Endpoint
from dbg_wire.messages import BrokerAddress, Welcome
from tests.unit.broker.hub.cluster.brokers import presence
from tests.unit.broker.hub.cluster.several import several_brokers

PINS = ("sha256:" + "0" * 64,)


async def test_who_is_connected_is_welcomed_again_with_all_brokers_when_one_comes_or_goes(tmp_path: Path) -> None:
    async with several_brokers(tmp_path, ("one", "two")) as several:
        broker, cluster = several.brokers[0], several.clusters[0]
        written: list[tuple[Endpoint, ...]] = []
        cluster.addresses.write = written.append
        rank, terminal = await broker.rank(), await broker.terminal()
        third = presence("three").replace(fingerprints=PINS)
        cluster.members.saw(third)
        own, other = cluster.members.own, several.clusters[1].members.own
        everybody = tuple(BrokerAddress(url=one.url, fingerprints=one.fingerprints) for one in (own, third, other))
        for peer in (rank, terminal):
            welcome = await peer.expect(Welcome, lambda said: len(said.brokers) == 3)
            assert welcome.brokers == everybody
        assert {endpoint.url: endpoint.fingerprints for endpoint in written[-1]} == {third.url: PINS, other.url: ()}
        cluster.members.left("three")
        welcome = await rank.expect(Welcome, lambda said: len(said.brokers) == 2)
        assert welcome.address == "gpu013:0"


async def test_another_certificate_is_told_to_all(tmp_path: Path) -> None:
    async with several_brokers(tmp_path, ("one", "two")) as several:
        one, two = several.clusters
        one.shows(PINS)
        await several.until(lambda: two.members.others()[0].fingerprints == PINS)
        assert one.addresses.all()[0].fingerprints == PINS
