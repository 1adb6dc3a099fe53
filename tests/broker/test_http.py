"""Who may become a WebSocket, and the two pages."""

from __future__ import annotations

import re

import pytest

from dbg_broker.auth import Role, Tokens
from dbg_broker.http import PROMETHEUS, Answer, Gauges, Meters, Upgrade, admit, metrics, page
from dbg_wire import limits
from dbg_wire.ranks import RankState

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
) -> Role | Answer:
    authorization = None if token is None else f"Bearer {token}"
    return admit(Upgrade(path, authorization, origin, subprotocols), TOKENS, agents=agents, clients=clients)


def refused(answer: Role | Answer) -> tuple[int, str]:
    assert isinstance(answer, Answer)
    assert answer.body.endswith("\n")
    assert answer.body.count("\n") == 1
    return answer.status, answer.body


def test_each_token_opens_its_path() -> None:
    assert ask("/agent", TOKENS.rank) is Role.RANK
    assert ask("/client", TOKENS.driver) is Role.DRIVER
    assert ask("/client?x=1", TOKENS.watcher) is Role.WATCHER
    assert ask(subprotocols=("chat", "dbg.v1")) is Role.DRIVER


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        ("/client", None, 401),
        ("/agent", "nobody's", 401),
        ("/agent", TOKENS.driver, 403),
        ("/client", TOKENS.rank, 403),
        ("/clients", TOKENS.driver, 404),
        ("", TOKENS.driver, 404),
    ],
)
def test_wrong_ones_are_refused(path: str, token: str | None, status: int) -> None:
    assert refused(ask(path, token))[0] == status


def test_no_refusal_repeats_a_token() -> None:
    for answer in (ask("/agent", TOKENS.driver), ask("/x", TOKENS.driver), ask(token="secret" * 9)):
        _, body = refused(answer)
        assert "dddd" not in body
        assert "secret" not in body


def test_browsers_are_refused() -> None:
    assert refused(ask(origin="https://example.org"))[0] == 403


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


def test_full_for_one_sort_is_not_full_for_the_other() -> None:
    assert refused(ask(clients=limits.MAX_CLIENTS))[0] == 503
    assert refused(ask("/agent", TOKENS.rank, agents=limits.MAX_RANKS))[0] == 503
    assert ask("/agent", TOKENS.rank, clients=limits.MAX_CLIENTS) is Role.RANK
    assert ask(agents=limits.MAX_RANKS) is Role.DRIVER


def test_health_is_one_word() -> None:
    assert page("/healthz", Meters(), GAUGES) == Answer(200, "ok\n")
    assert page("/health", Meters(), GAUGES) is None


def test_metrics_are_what_prometheus_reads() -> None:
    meters = Meters(handshakes=5, bytes_from_ranks=10**12)
    meters.refusals.update([401, 401, 426])
    answer = page("/metrics", meters, GAUGES)
    assert answer is not None
    assert answer.content_type == PROMETHEUS
    lines = answer.body.splitlines()
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert samples['dbg_broker_ranks{state="stopped"}'] == "3"
    assert samples['dbg_broker_ranks{state="lost"}'] == "0"
    assert samples['dbg_broker_refusals_total{status="401"}'] == "2"
    assert samples["dbg_broker_rank_bytes_total"] == "1000000000000"
    assert samples["dbg_broker_uptime_seconds"] == "1234567.125"
    assert all(re.fullmatch(r'[a-z_]+(\{[a-z]+="[a-z0-9]+"\})?', name) for name in samples)


def test_every_sample_has_a_type() -> None:
    text = metrics(Meters(), GAUGES)
    typed = set(re.findall(r"^# TYPE (\S+) (?:gauge|counter)$", text, re.MULTILINE))
    named = {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}
    assert named <= typed
