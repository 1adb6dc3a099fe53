"""There is one way to a broker: pinned, or without TLS with a token that opens nothing later.

All ways that the packages offer are tried with a broker that must not be dialled;
``tests/e2e/project/test_one_way.py`` reads in the sources that there is no other.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Awaitable, Callable

import pytest

import dbg_agent.link.dialling
import dbg_broker.cli.broker_client
import dbg_client.core.link
import dbg_dial.dial
import dbg_dial.rank_list
import dbg_dial.tcp
from dbg_agent.link.fork_safety import Lookups
from dbg_dial.dial import AddressInfos
from dbg_dial.endpoint import Endpoint, Route, fingerprint_of
from dbg_dial.pin import check_certificate, client_context
from dbg_wire.errors import BadEndpoint, WrongCertificate
from tests.support.fake_brokers import Impostor, Kind
from tests.support.reach import PIN, TOKENS
from tests.support.time_unit import seconds

TOKEN = TOKENS["driver"]

Way = Callable[[Route], Awaitable[object]]


async def ask_nobody(find: Callable[[], AddressInfos]) -> AddressInfos:
    raise AssertionError("a name server was asked")


async def addresses(reach: Route) -> object:
    return await dbg_dial.dial.addresses(reach.endpoint, ask_nobody)


async def open_websocket(reach: Route) -> object:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(reach.endpoint.host, reach.endpoint.port)
    sock = await dbg_dial.tcp.connected((found[0][0], found[0][4]))
    return await dbg_dial.dial.open_websocket(reach, "/client", sock, seconds(10))


async def dial(reach: Route) -> object:
    return await dbg_dial.dial.dial_broker(reach, "/client", ask_nobody, seconds(10), connect_seconds=seconds(10))


async def of_a_rank(reach: Route) -> object:
    return await dbg_agent.link.dialling.dial(reach, "/agent", Lookups())


async def of_a_terminal(reach: Route) -> object:
    return await dbg_client.core.link.dial(reach, "me@here", seconds(10))


async def of_the_brokers_verbs(reach: Route) -> object:
    async with dbg_broker.cli.broker_client.BrokerProbe(reach) as probe:
        return [await probe.look_up(), await probe.connect(), await probe.secure(), await probe.present()]


async def of_a_completion(reach: Route) -> object:
    return await dbg_dial.rank_list.fetch_rank_list(reach, "me@here", connect_seconds=seconds(10), seconds=seconds(10))


async def of_a_new_broker(reach: Route) -> object:
    return await dbg_dial.dial.is_served(reach.endpoint, seconds(10))


WAYS: dict[str, Way] = {
    "dbg_dial.dial.addresses": addresses,
    "dbg_dial.dial.open_websocket": open_websocket,
    "dbg_dial.dial.dial_broker": dial,
    "dbg_dial.dial.is_served": of_a_new_broker,
    "dbg_dial.rank_list.fetch_rank_list": of_a_completion,
    "dbg_agent.link.dialling.dial": of_a_rank,
    "dbg_client.core.link.dial": of_a_terminal,
    "dbg_broker.cli.broker_client.BrokerProbe": of_the_brokers_verbs,
}
"""All calls that can bring a token to a broker."""


def reach(port: int) -> Route:
    endpoint = Endpoint(host="127.0.0.1", port=port, fingerprint=None)
    return Route(endpoint=endpoint, token=TOKEN, sources={})


@pytest.mark.parametrize("kind", ["http", "tls"])
@pytest.mark.parametrize("way", WAYS)
async def test_no_call_connects_to_an_unknown_broker(way: str, kind: Kind) -> None:
    with Impostor(0, kind) as impostor, pytest.raises(BadEndpoint):
        await WAYS[way](reach(impostor.port))
    assert b"".join(impostor.heard()) == b""


PINNED = Endpoint(host="login1", port=6900, fingerprint=PIN)
UNPINNED = Endpoint(host="login1", port=6900, fingerprint=None)


def test_certificate_fingerprint_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    really = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return really(a, b)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    right = Endpoint(host="h", port=1, fingerprint=fingerprint_of(b"certificate"))
    assert check_certificate(right, b"certificate") == right.fingerprint
    with pytest.raises(WrongCertificate, match=f"it is {fingerprint_of(b'other')}, not {right.fingerprint}"):
        check_certificate(right, b"other")
    assert len(compared) == 2


@pytest.mark.parametrize(("endpoint", "certificate"), [(PINNED, None), (PINNED, b""), (UNPINNED, b"certificate")])
def test_missing_certificate_or_pin_is_refused(endpoint: Endpoint, certificate: bytes | None) -> None:
    with pytest.raises(WrongCertificate):
        check_certificate(endpoint, certificate)


def test_tls_is_1_2_or_later() -> None:
    assert client_context(PINNED).minimum_version is ssl.TLSVersion.TLSv1_2
