"""A WebSocket to a broker that is known by a pin or an authority, and the error for each other peer."""

from __future__ import annotations

import asyncio
import datetime
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import trustme

import dbg_agent.link.dialling
import dbg_client.core.link
from dbg_agent.link.fork_safety import Lookups
from dbg_broker.cli.broker_client import BrokerProbe
from dbg_dial.connect_errors import explain
from dbg_dial.dial import AddressInfos, BrokerWebSocket, addresses, open_websocket
from dbg_dial.endpoint import Endpoint, Route
from dbg_dial.pin import client_context
from dbg_dial.rank_list import fetch_rank_list
from dbg_dial.tcp import connected
from dbg_wire.errors import (
    BadSecretFile,
    BrokerUnreachable,
    ConnectionClosedEarly,
    DbgError,
    NotABroker,
    Refused,
    UntrustedCertificate,
    WrongCertificate,
    WrongToken,
    WrongVersion,
)
from tests.conftest import Approved
from tests.support import fake_brokers as fake
from tests.support.fake_brokers import FakeBroker
from tests.support.reach import OTHER_PIN, PIN, TOKENS
from tests.support.time_unit import seconds

TOKEN = TOKENS["rank"]
URL = "wss://login1:6900"
OPENING = seconds(10)


def reach(port: int, fingerprint: str, host: str = "127.0.0.1") -> Route:
    endpoint = Endpoint(host=host, port=port, fingerprint=fingerprint)
    return Route(endpoint=endpoint, token=TOKEN, sources={})


async def opened(where: Route, opening: float = OPENING) -> BrokerWebSocket:
    sock = await connected((socket.AF_INET, (where.endpoint.host, where.endpoint.port)))
    try:
        return await open_websocket(where, "/agent", sock, opening)
    except Exception as error:
        raise explain(where.endpoint.url, error, opening) from None


async def test_messages_of_the_pinned_broker_are_received() -> None:
    with FakeBroker(fake.accept_and_send(fake.frame(fake.TEXT, b"hello"))) as broker:
        websocket = await opened(reach(broker.port, broker.fingerprint))
        assert await websocket.recv() == "hello"
        assert websocket.heard > 0
        assert websocket.broker_url == f"wss://127.0.0.1:{broker.port}"
        kernels = websocket.transport.get_extra_info("socket")
        assert kernels.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        websocket.transport.abort()
        await websocket.wait_closed()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (fake.answer_status("401 Unauthorized", "go away"), WrongToken),
        (fake.answer_status("403 Forbidden", "go away"), WrongToken),
        (fake.answer_status("426 Upgrade Required", "go away"), WrongVersion),
        (fake.answer_status("503 Service Unavailable", "go away"), Refused),
        (fake.accept_and_send(subprotocol=None), WrongVersion),
        (fake.stay_silent, BrokerUnreachable),
    ],
    ids=["token", "role", "version", "full", "another subprotocol", "silent"],
)
async def test_refusal_shows_the_text_of_the_broker(
    approved: Approved, answer: fake.Answer, error: type[DbgError]
) -> None:
    opening = 0.3 if answer is fake.stay_silent else OPENING
    with FakeBroker(answer) as broker, pytest.raises(DbgError) as caught:
        await opened(reach(broker.port, broker.fingerprint), opening)
    assert type(caught.value) is error
    approved(str(caught.value))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), BrokerUnreachable),
        (ConnectionRefusedError(errno.ECONNREFUSED, "('::1', 1)"), BrokerUnreachable),
        (OSError("Multiple exceptions: …"), BrokerUnreachable),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), BrokerUnreachable),
        (EOFError(), ConnectionClosedEarly),
        (ConnectionResetError(errno.ECONNRESET, "reset"), ConnectionClosedEarly),
        (ssl.SSLError("handshake"), NotABroker),
        (ValueError("cannot follow redirect"), NotABroker),
        (KeyboardInterrupt(), None),
        (asyncio.CancelledError(), None),
        (RuntimeError(), None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_connect_failure_has_a_message_and_other_errors_are_unchanged(
    approved: Approved, error: BaseException, kind: type[DbgError] | None
) -> None:
    explained = explain(URL, error, 2.0)
    if kind is None:
        assert explained is error
    else:
        assert type(explained) is kind
        approved(str(explained))


async def test_only_host_names_are_looked_up() -> None:
    asked: list[Callable[[], AddressInfos]] = []

    async def ask(find: Callable[[], AddressInfos]) -> AddressInfos:
        asked.append(find)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 1))] * 2

    assert await addresses(reach(1, PIN).endpoint, ask) == [(socket.AF_INET, ("127.0.0.1", 1))]
    assert asked == []
    assert await addresses(reach(1, PIN, host="login1").endpoint, ask) == [(socket.AF_INET, ("10.0.0.1", 1))]
    assert len(asked) == 1


OURS = trustme.CA()
OTHERS = trustme.CA()

Way = Callable[[Route], Awaitable[object]]


async def of_a_rank(reach: Route) -> object:
    return await dbg_agent.link.dialling.dial(reach, "/agent", Lookups())


async def of_a_terminal(reach: Route) -> object:
    return await dbg_client.core.link.dial(reach, "me@here", seconds(10))


async def of_a_verb(reach: Route) -> object:
    async with BrokerProbe(reach) as probe:
        for step in (probe.look_up, probe.connect, probe.secure, probe.compare):
            await step()
        return await probe.present()


async def of_a_completion(reach: Route) -> object:
    return await fetch_rank_list(reach, "me@here", connect_seconds=seconds(5), seconds=seconds(10))


ALL_WAYS = pytest.mark.parametrize("way", [of_a_rank, of_a_terminal, of_a_verb, of_a_completion])


class Broker(FakeBroker):
    """A broker that notes all requests and refuses their tokens."""

    def __init__(self, certificate: trustme.LeafCert) -> None:
        self.requests: list[str] = []
        super().__init__(self._refuse, certificate)

    def __enter__(self) -> Broker:
        return self

    def _refuse(self, connection: ssl.SSLSocket) -> None:
        request = fake.read_request(connection)
        if request:
            self.requests.append(request)
            connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")


def at(broker: FakeBroker, ca: trustme.CA, **changes: object) -> Route:
    endpoint = Endpoint(host="127.0.0.1", port=broker.port, fingerprint=None, ca=pem(ca))
    return Route(endpoint=replace(endpoint, **changes), token=TOKEN, sources={})  # type: ignore[arg-type]


def pem(ca: trustme.CA) -> str:
    return ca.cert_pem.bytes().decode()


async def refusal(way: Way, reach: Route) -> DbgError:
    with pytest.raises(DbgError) as caught:
        await way(reach)
    return caught.value


@ALL_WAYS
async def test_trusted_certificate_needs_no_pin_but_a_given_pin_must_match(way: Way) -> None:
    with Broker(OURS.issue_cert("127.0.0.1")) as broker:
        # The token is sent, and so can be refused.
        assert isinstance(await refusal(way, at(broker, OURS)), WrongToken)
        assert isinstance(await refusal(way, at(broker, OURS, fingerprint=broker.fingerprint)), WrongToken)
        assert len(broker.requests) == 2
        assert isinstance(await refusal(way, at(broker, OURS, fingerprint=OTHER_PIN)), WrongCertificate)
        assert isinstance(await refusal(way, at(broker, OTHERS, fingerprint=broker.fingerprint)), UntrustedCertificate)
        assert len(broker.requests) == 2


YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


@ALL_WAYS
@pytest.mark.parametrize(
    ("certificate", "why"),
    [
        (OTHERS.issue_cert("127.0.0.1"), "unable to get local issuer certificate"),
        (OURS.issue_cert("login1.example", common_name="127.0.0.1"), "IP address mismatch"),
        (OURS.issue_cert("127.0.0.1", not_after=YESTERDAY), "certificate has expired"),
        (OURS.issue_cert("127.0.0.1", not_before=YESTERDAY + datetime.timedelta(days=2)), "not yet valid"),
    ],
    ids=["other authority", "common name", "expired", "not yet valid"],
)
async def test_untrusted_peer_receives_no_request(
    approved: Approved, way: Way, certificate: trustme.LeafCert, why: str
) -> None:
    with Broker(certificate) as broker:
        error = await refusal(way, at(broker, OURS))
        assert isinstance(error, UntrustedCertificate)
        assert why in str(error)
        approved(str(error))
    assert broker.requests == []


@ALL_WAYS
async def test_certificate_name_is_compared_with_the_dialled_name(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def look_up(host: str | bytes, *rest: object, **options: object) -> object:
        if host in ("dbg.example", b"dbg.example") and not options.get("flags"):
            return real("127.0.0.1", *rest, **options)  # type: ignore[arg-type]
        return real(host, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with Broker(OURS.issue_cert("dbg.example")) as broker:
        assert isinstance(await refusal(way, at(broker, OURS, host="dbg.example")), WrongToken)
    with Broker(OURS.issue_cert("login1.example")) as broker:
        assert isinstance(await refusal(way, at(broker, OURS, host="dbg.example")), UntrustedCertificate)


def test_invalid_authority_file_is_named(approved: Approved) -> None:
    nonsense = "-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n"
    with pytest.raises(BadSecretFile) as caught:
        client_context(Endpoint(host="h", port=1, fingerprint=None, ca=nonsense))
    approved(str(caught.value))
