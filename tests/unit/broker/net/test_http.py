"""Admission of WebSockets, and the two HTTP pages: health and metrics."""

from __future__ import annotations

import pytest

from dbg_broker.home.tokens import Bearer, Role, Tokens
from dbg_broker.net.handshake_slots import MANY, Capacity
from dbg_broker.net.http import (
    Connected,
    HttpAnswer,
    Upgrade,
    admit,
)
from dbg_broker.net.tcp import CantListen, PortTaken, listen

NOW = 1_700_000_000.0

TOKENS = Tokens(rank="r" * 43, driver="d" * 43, watcher="w" * 43)


def ask(
    path: str = "/client",
    token: str | None = TOKENS.driver,
    *,
    origin: str | None = None,
    subprotocols: tuple[str, ...] = ("dbg.v1",),
    agents: int = 0,
    clients: int = 0,
    watchers: int = 0,
    descriptors: int = MANY,
) -> Role | HttpAnswer:
    authorization = None if token is None else f"Bearer {token}"
    connected = Connected(ranks=agents, drivers=clients, watchers=watchers)
    upgrade = Upgrade(path, authorization, origin, subprotocols)
    answer = admit(upgrade, TOKENS, connected, Capacity(descriptors), NOW)
    return answer.role if isinstance(answer, Bearer) else answer


def refused(answer: Role | HttpAnswer) -> tuple[int, str]:
    assert isinstance(answer, HttpAnswer)
    assert answer.body.endswith("\n")
    assert answer.body.count("\n") == 1
    return answer.status, answer.body


def test_no_refusal_repeats_a_token() -> None:
    for answer in (ask("/agent", TOKENS.driver), ask("/x", TOKENS.driver), ask(token="secret" * 9)):
        _, body = refused(answer)
        assert "dddd" not in body
        assert "secret" not in body


def test_paths_are_escaped() -> None:
    assert "\x1b" not in refused(ask("/\x1b[31m"))[1]


@pytest.mark.parametrize(
    ("offered", "named"), [(("dbg.v2", "dbg.v3"), "2 and 3"), ((), "no version"), (("x",), "no ver")]
)
def test_other_versions_are_refused_naming_both(offered: tuple[str, ...], named: str) -> None:
    status, body = refused(ask(subprotocols=offered))
    assert status == 426
    assert "protocol version 1" in body
    assert named in body


def test_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is taken"):
            listen("127.0.0.1", port)


def test_address_of_another_host_is_named() -> None:
    with pytest.raises(CantListen, match=r"can't listen on 192\.0\.2\.1"):
        listen("192.0.2.1", 0)
