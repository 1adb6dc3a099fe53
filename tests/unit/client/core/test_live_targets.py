from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dbg_client.core.live_targets import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    SECONDS,
    live_ranks,
    patience,
    remembered_targets,
    targets_of,
)
from dbg_client.core.remembered_groups import find_remembered_groups
from dbg_wire.finding.endpoint import TOKEN_ROLES, parse_endpoint
from dbg_wire.finding.rendezvous import Rendezvous, format_rendezvous
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.records.record import plain
from tests.unit.client.fake_broker import FakeBroker, make_rank

RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)


def as_json(*ranks: RankInfo) -> list[Mapping[str, Any]]:
    return [plain(rank) for rank in ranks]


def test_ranks_of_one_job_are_told_with_where_they_are() -> None:
    gone = make_rank(7, state=RankState.EXITED)

    assert list(targets_of(as_json(make_rank(5), RUNNING, gone))) == [
        ("gpu013:5", "stopped train.py:41"),
        ("gpu013:6", "running"),
    ]


def test_of_several_jobs_each_is_named() -> None:
    found = [target for target, _ in targets_of(as_json(make_rank(5), make_rank(5, job="other", key="o")))]

    assert found == ["4711.0/gpu013:5", "other/gpu013:5", "4711.0/all", "other/all"]


def test_two_of_one_address_are_told_apart_by_their_process() -> None:
    found = [target for target, _ in targets_of(as_json(make_rank(5), make_rank(5, key="again", pid=9)))]

    assert found == ["gpu013:5@8805", "gpu013:5@9"]


@pytest.mark.parametrize("address", ["gpu;reboot:5", "$(reboot):5", "a b:5", "gpu\n:5", "gpu\x1b[2J:5", "`x`:5", ""])
def test_an_address_that_a_shell_could_take_for_more_is_not_offered(address: str) -> None:
    assert list(targets_of(as_json(make_rank(5, address=address, job="evil; job")))) == []


def test_a_place_can_not_act_on_a_terminal() -> None:
    place = {"file": "/a\x1b[2J\t.py", "line": 3, "function": "f"}
    ((_, meaning),) = targets_of([*as_json(RUNNING)[:0], {**as_json(make_rank(5))[0], "halt": {"where": place}}])

    assert meaning.isprintable()


def test_the_ranks_of_the_broker_are_found(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), RUNNING) as broker:
        found = [target for target, _ in live_ranks({**environ, **broker.environment, SECONDS: "30"})]

    assert found == ["gpu013:5", "gpu013:6"]


def test_without_a_broker_there_are_none(environ: dict[str, str], tmp_path: Path) -> None:
    with FakeBroker() as broker:
        gone = {**environ, **broker.environment}

    assert list(live_ranks(gone)) == []
    assert list(live_ranks({"DBG_HOME": str(tmp_path)})) == []
    assert list(live_ranks({"DBG_BROKER": "no address"})) == []


def test_where_the_homes_broker_is_gone_another_one_is_asked(environ: dict[str, str], tmp_path: Path) -> None:
    with FakeBroker() as gone:
        own = gone.environment["DBG_BROKER"]
    with FakeBroker(make_rank(5), RUNNING) as other:
        token = other.environment["DBG_TOKEN"]
        others = (parse_endpoint(other.environment["DBG_BROKER"], source="broker.json"),)
        written = Rendezvous(
            url=own,
            host=socket.gethostname(),
            pid=1,
            fingerprint=None,
            tokens=dict.fromkeys(TOKEN_ROLES, token),
            brokers=others,
        )
        home = tmp_path / "site"
        home.mkdir(mode=0o700)
        (home / "broker.json").touch(mode=0o600)
        (home / "broker.json").write_text(format_rendezvous(written))
        found = [target for target, _ in live_ranks({**environ, "DBG_HOME": str(home), SECONDS: "30"})]

    assert found == ["gpu013:5", "gpu013:6"]


@pytest.mark.parametrize("text", ["", "soon", "0", "-1", "nan", "inf", "61"])
def test_a_user_far_away_can_have_it_wait(text: str) -> None:
    assert patience({SECONDS: "3"}) == (3.0, 3.0)
    assert patience({SECONDS: text}) == (CONNECT_SECONDS, ANSWER_SECONDS)


def test_remembered_groups_are_targets(tmp_path: Path) -> None:
    environ = {"DBG_HOME": str(tmp_path)}
    memory = find_remembered_groups(environ)
    assert memory is not None
    memory.save({"@1": ["a", "b"], "@?": ["c"], "$(x)": ["d"]})

    assert list(remembered_targets(environ)) == [("@1", "2 of the last answer"), ("@?", "1 of the last answer")]
    assert list(remembered_targets({})) == []
