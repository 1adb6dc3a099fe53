"""Who the child of a rank is, and that it stays that at another broker."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dbg_agent.launch.this_process import Identity, this_process
from dbg_agent.rank import membership
from dbg_agent.rank.membership import Membership
from dbg_agent.rank.rank import Rank
from dbg_agent.settings import Settings
from dbg_wire.messages import Welcome
from dbg_wire.records.ranks import Numbering
from tests.unit.agent.fake_link import FakeNetwork, never

WELCOME = Welcome(minor=0, release="0.1.0", host="login1", pid=1, uptime=0.0, address="h:0.2", child=2)


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Rank:
    me = replace(this_process(), launcher="none")
    monkeypatch.setattr(membership, "this_process", lambda: me)
    network: Any = FakeNetwork(lambda _: None, lambda _: None, lambda *_: None, never)
    return Rank(Settings(), make_link=network.link)


PARENT = replace(this_process(), job="parents", run="runs", launcher="none", rank=0)
NUMBERED = replace(PARENT, launcher="framework", rank=3, by_library=True)


@pytest.mark.parametrize(
    ("parent", "changes", "place", "numbering"),
    [
        pytest.param(PARENT, {}, ("parents", "runs", 0), Numbering.NONE, id="no number"),
        pytest.param(
            PARENT, {"launcher": "framework", "rank": 1, "by_library": True}, ("parents", "runs", 1), Numbering.LIBRARY,
            id="a number of torch",
        ),
        pytest.param(NUMBERED, {}, ("parents", "runs", 3), Numbering.LAUNCHER, id="a parent that torch has numbered"),
        pytest.param(
            NUMBERED, {"launcher": "framework", "rank": 3, "by_library": True}, ("parents", "runs", 3),
            Numbering.LAUNCHER, id="a copy of its parent's torch",
        ),
        pytest.param(
            replace(PARENT, launcher="slurm"), {"launcher": "slurm", "job": "4711.0", "rank": 5, "by_library": True},
            ("4711.0", "", 5), Numbering.LIBRARY, id="one task for each host",
        ),
    ],
)  # fmt: skip
def test_a_forked_child_is_in_its_parents_job_and_has_its_own_number(
    rank: Rank, monkeypatch: pytest.MonkeyPatch, parent: Identity, changes: dict[str, Any],
    place: tuple[str, str, int], numbering: Numbering,
) -> None:  # fmt: skip
    me = replace(this_process(), **{"launcher": "none", "job": "mine", "run": "", "rank": 0, **changes})
    monkeypatch.setattr(membership, "this_process", lambda: me)
    child = Membership(rank.settings, parent)
    assert (child.identity.job, child.identity.run, child.identity.rank) == place
    assert child.numbering is numbering


def test_a_number_of_torch_replaces_the_child_number_and_is_kept_when_torch_is_closed(
    rank: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank.membership.welcomed(WELCOME)
    before = rank.membership.identity
    numbered = replace(before, launcher="framework", rank=1, by_library=True)
    for me in (numbered, before):
        monkeypatch.setattr(membership, "this_process", lambda me=me: me)
        sent = json.loads(rank.membership.registration(rank.rank_report(), anew=True))
        assert (sent["identity"]["rank"], sent["placement"]["numbering"], sent["child"]) == (1, "library", None)


def test_a_rank_registers_its_child_number_again(rank: Rank) -> None:
    assert json.loads(rank.membership.registration(rank.rank_report(), anew=True)).get("child") is None
    rank.membership.welcomed(WELCOME)
    assert json.loads(rank.membership.registration(rank.rank_report(), anew=True))["child"] == 2


CLAIM = "rank:7:none:rl-1/rl.py-7.0/0"
"""What a driver of Ray tells the workers that it starts."""


@pytest.mark.parametrize(
    ("launcher", "run", "child"), [("ray", "rl.py-7.0--h1-5000.0", None), ("none", "rl.py-7.0", 1)]
)
def test_an_actor_is_in_its_drivers_job_and_a_child_until_it_has_a_number(
    launcher: str, run: str, child: int | None, rank: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = replace(rank.membership.identity, launcher=launcher, run="h1-5000.0")
    monkeypatch.setattr(membership, "this_process", lambda: me)
    monkeypatch.setattr(membership, "actor_class", "Worker")
    monkeypatch.setenv("DBG_AUTOSTART", CLAIM)
    sent = json.loads(Membership(rank.settings, None).registration(rank.rank_report(), anew=True))
    assert (sent["identity"]["job"], sent["identity"]["run"], sent["child"]) == ("rl-1", run, child)
    assert sent["process"]["name"] == "Worker"
