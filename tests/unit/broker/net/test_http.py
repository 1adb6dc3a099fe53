"""Admission of WebSockets, and the two HTTP pages: health and metrics."""

from __future__ import annotations

import pytest

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.home.tokens import Tokens, proof
from dbg_broker.net.http import Connected, HttpAnswer, Upgrade, admit, page
from dbg_broker.net.loop import LoopTimes
from dbg_broker.net.metrics import Gauges, Meters
from dbg_broker.net.places import MANY, OWN_DESCRIPTORS, Capacity
from dbg_wire import limits
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


def test_watchers_leave_places_for_those_that_type() -> None:
    watchers = limits.MAX_CLIENTS * 7 // 8
    assert ask("/client", TOKENS.watcher, watchers=watchers - 1) is Role.WATCHER
    status, body = refused(ask("/client", TOKENS.watcher, watchers=watchers))
    assert (status, body) == (503, f"the broker is full: {watchers} watchers are connected, and it takes {watchers}\n")
    assert ask(watchers=limits.MAX_CLIENTS) is Role.DRIVER
    assert refused(ask(clients=limits.MAX_CLIENTS))[0] == 503


@pytest.mark.parametrize("descriptors", [64, 256, 1024, 4096])
def test_what_a_process_may_open_is_divided_and_a_full_broker_says_what_it_lacks(descriptors: int) -> None:
    capacity = Capacity(descriptors)
    assert capacity.pending + capacity.clients + capacity.ranks <= descriptors - OWN_DESCRIPTORS
    assert 0 < capacity.watchers < capacity.clients
    assert capacity.pending_of_address < capacity.pending
    assert ask("/agent", TOKENS.rank, agents=capacity.ranks - 1, descriptors=descriptors) is Role.RANK
    status, body = refused(ask("/agent", TOKENS.rank, agents=capacity.ranks, descriptors=descriptors))
    assert status == 503
    assert f"{descriptors} open files" in body


def test_health_is_one_word() -> None:
    assert page("/healthz", Meters(), GAUGES, TIMES, TOKENS) == HttpAnswer(200, "ok\n")
    assert page("/health", Meters(), GAUGES, TIMES, TOKENS) is None


CHALLENGE = "c0ffee" * 10
THROW_AWAY = Tokens(rank="insecure-" + "r" * 43, driver="insecure-" + "d" * 43, watcher="insecure-" + "w" * 43)


def proofs(query: str, tokens: Tokens) -> list[str]:
    answer = page(f"/healthz?{query}", Meters(), GAUGES, TIMES, tokens)
    assert answer is not None
    first, *lines = answer.body.splitlines()
    assert (answer.status, first) == (200, "ok")
    return lines


def test_health_without_tls_proves_to_who_knows_a_token_that_the_broker_knows_it() -> None:
    given = proofs(f"prove={CHALLENGE}", THROW_AWAY)
    assert given == [proof(THROW_AWAY.of(role), CHALLENGE) for role in Role]
    assert given != proofs(f"prove={CHALLENGE[1:]}", THROW_AWAY)
    assert not any(THROW_AWAY.of(role) in line for line in given for role in Role)


def test_no_lasting_token_is_proved_to_strangers() -> None:
    assert proofs(f"prove={CHALLENGE}", TOKENS) == []


@pytest.mark.parametrize(
    "query",
    [
        "prove=",
        "prove",
        CHALLENGE,
        "prove=c0ffee",
        f"prove={CHALLENGE.upper()}",
        "prove=" + "a" * 129,
        f"prove={CHALLENGE}\n",
        f"prove={CHALLENGE}&x=1",
        "prove=driver until 9999999999",
        "prove=dial: driver until 9999999999",
    ],
)
def test_what_is_not_hex_digits_is_not_answered(query: str) -> None:
    assert proofs(query, THROW_AWAY) == []
