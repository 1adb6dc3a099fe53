"""A WebSocket to the pinned broker, and the error for each other peer."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace

import pytest

from dbg_dial.dial import AddressInfos, BrokerWebSocket, Timing, Wording, addresses, explain, open_websocket
from dbg_dial.tcp import connected
from dbg_wire.errors import BrokerUnreachable, DbgError, HungUp, Refused, WrongCertificate, WrongToken, WrongVersion
from dbg_wire.finding.endpoint import Endpoint, Reach
from tests.conftest import Approved
from tests.support import fake_brokers as fake
from tests.support.fake_brokers import FakeBroker
from tests.support.reach import PIN, TOKENS
from tests.support.time_unit import seconds

TOKEN = TOKENS["rank"]
URL = "wss://login1:6900"
TIMING = Timing(opening=seconds(10), ping=seconds(10), pong=seconds(10))
WORDING = Wording(
    wrong_certificate="shown {shown}, pinned {pinned}", no_tls="no TLS: {why}", no_broker="no broker: {why}"
)


def reach(port: int, fingerprint: str, host: str = "127.0.0.1") -> Reach:
    endpoint = Endpoint(host=host, port=port, secure=True, fingerprint=fingerprint)
    return Reach(endpoint=endpoint, token=TOKEN, sources={})


async def opened(where: Reach, timing: Timing = TIMING) -> BrokerWebSocket:
    sock = await connected((socket.AF_INET, (where.endpoint.host, where.endpoint.port)))
    try:
        return await open_websocket(where, "/agent", sock, timing, WORDING)
    except Exception as error:
        raise explain(where.endpoint.url, error, timing.opening, WORDING) from None


async def test_the_pinned_broker_is_heard() -> None:
    with FakeBroker(fake.accept_and_send(fake.frame(fake.TEXT, b"hello"))) as broker:
        websocket = await opened(reach(broker.port, broker.fingerprint))
        assert await websocket.recv() == "hello"
        assert websocket.heard_at > 0
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
        (fake.say_nothing, BrokerUnreachable),
    ],
    ids=["token", "role", "version", "busy", "another subprotocol", "silent"],
)
async def test_a_refusal_is_told_in_the_brokers_words(
    approved: Approved, answer: fake.Answer, error: type[DbgError]
) -> None:
    opening = 0.3 if answer is fake.say_nothing else TIMING.opening
    with FakeBroker(answer) as broker, pytest.raises(DbgError) as caught:
        await opened(reach(broker.port, broker.fingerprint), replace(TIMING, opening=opening))
    assert type(caught.value) is error
    approved(str(caught.value))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (asyncio.TimeoutError(), BrokerUnreachable),
        (ConnectionRefusedError(errno.ECONNREFUSED, "('::1', 1)"), BrokerUnreachable),
        (OSError("Multiple exceptions: …"), BrokerUnreachable),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), BrokerUnreachable),
        (EOFError(), HungUp),
        (ConnectionResetError(errno.ECONNRESET, "reset"), HungUp),
        (ssl.SSLError("handshake"), WrongCertificate),
        (ValueError("cannot follow redirect"), Refused),
        (KeyboardInterrupt(), None),
        (asyncio.CancelledError(), None),
        (RuntimeError(), None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_failure_has_its_sentence_and_what_is_not_about_the_peer_is_left_as_it_is(
    approved: Approved, error: BaseException, kind: type[DbgError] | None
) -> None:
    explained = explain(URL, error, 2.0, WORDING)
    if kind is None:
        assert explained is error
    else:
        assert type(explained) is kind
        approved(str(explained))


async def test_only_a_name_is_asked_for() -> None:
    asked: list[Callable[[], AddressInfos]] = []

    async def ask(find: Callable[[], AddressInfos]) -> AddressInfos:
        asked.append(find)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 1))] * 2

    assert await addresses(reach(1, PIN), ask) == [(socket.AF_INET, ("127.0.0.1", 1))]
    assert asked == []
    assert await addresses(reach(1, PIN, host="login1"), ask) == [(socket.AF_INET, ("10.0.0.1", 1))]
    assert len(asked) == 1
