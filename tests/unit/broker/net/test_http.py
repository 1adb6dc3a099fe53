"""Admission of WebSockets, and the two HTTP pages: health and metrics."""

from __future__ import annotations

from collections import Counter

import pytest

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.home.tokens import Tokens
from dbg_broker.net.http import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    Connected,
    HttpAnswer,
    NoRequest,
    Upgrade,
    admit,
    read_head,
    read_request,
)
from dbg_broker.net.loop import LoopTimes
from dbg_broker.net.metrics import Gauges
from dbg_broker.net.places import MANY, Capacity
from dbg_broker.net.tcp import CantListen, PortTaken, listen
from dbg_broker.net.turns import Account, FairQueue, Work
from dbg_wire.records.ranks import RankState

NOW = 1_700_000_000.0

TIMES = LoopTimes(lambda: 0.0, lambda: 0.0)
TOKENS = Tokens(rank="r" * 43, driver="d" * 43, watcher="w" * 43)
GAUGES = Gauges(
    ranks={RankState.STOPPED: 3}, terminals=2, sessions=1, drivers=1, watchers=1, pending=0, uptime=1234567.125
)


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


def test_a_head_is_bounded() -> None:
    assert read_head(b"GET /" + b"x" * (MAX_HEAD_BYTES - 5)) is None
    with pytest.raises(NoRequest, match="has no end"):
        read_head(b"GET /" + b"x" * MAX_HEAD_BYTES)


def lines(headers: dict[str, str], first: str = "GET /agent HTTP/1.1") -> bytes:
    return "\r\n".join([first, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    "wrong",
    [
        lines({}, "GET /agent"),
        lines({}, "GET /agent HTTP/2.0"),
        lines({}, "GET /\xe9 HTTP/1.1"),
        lines({"A B": "c"}),
        lines({"A": "b\rc"}),
        lines({"A": "b\nC: d"}),
        lines({"A": "b\x00"}),
        b"GET / HTTP/1.1\r\n folded: x\r\n\r\n",
        lines({"Transfer-Encoding": "chunked"}),
        lines({"Content-Length": "1"}),
        lines({f"H{number}": "" for number in range(MAX_HEADERS + 1)}),
    ],
)
def test_what_is_not_well_formed_or_has_a_body_is_no_request(wrong: bytes) -> None:
    with pytest.raises(NoRequest):
        read_request(wrong)


def named() -> Work:
    """Return work that is only told apart from other work."""
    return lambda is_over: not is_over()


def serve(line: FairQueue, slices: int, seconds: float = 1.0) -> list[Account]:
    """Serve workers that always have more, and return whose turn it was."""
    served = []
    for _ in range(slices):
        worker, share = line.pop()
        line.charge(share, seconds)
        line.put(worker, share)
        served.append(share)
    return served


def line_of(*shares: Account) -> FairQueue:
    line = FairQueue()
    for share in shares:
        line.put(named(), share)
    return line


def test_five_hundred_connections_of_a_token_have_the_share_of_one() -> None:
    flood = [Account("job", "10.0.0.1", number) for number in range(500)]
    mine = Account("mine", "10.0.0.1", 1)
    served = Counter(share.token for share in serve(line_of(*flood, mine), 100))
    assert served == {"job": 50, "mine": 50}


def test_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is taken"):
            listen("127.0.0.1", port)


def test_address_of_another_host_is_named() -> None:
    with pytest.raises(CantListen, match=r"can't listen on 192\.0\.2\.1"):
        listen("192.0.2.1", 0)
