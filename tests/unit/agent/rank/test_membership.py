"""Who the child of a rank is, and that it stays that at another broker."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dbg_agent.launch.this_process import this_process
from dbg_agent.rank import membership
from dbg_agent.rank.membership import Membership
from dbg_agent.rank.rank import Rank
from dbg_agent.settings import Settings
from dbg_wire.messages import Welcome
from tests.unit.agent.fake_link import FakeNetwork, never

WELCOME = Welcome(minor=0, release="0.1.0", host="login1", pid=1, uptime=0.0, address="h:0.2", child=2)


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Rank:
    me = replace(this_process(), launcher="none")
    monkeypatch.setattr(membership, "this_process", lambda: me)
    network: Any = FakeNetwork(lambda _: None, lambda _: None, lambda *_: None, never)
    return Rank(Settings(), make_link=network.link)


def test_the_child_of_a_rank_without_a_launcher_is_in_its_parents_job(rank: Rank) -> None:
    parent = replace(rank.membership.identity, job="parents", run="runs")
    child = Membership(rank, parent).identity
    assert (child.job, child.run) == ("parents", "runs")


def test_a_rank_restates_which_child_it_is(rank: Rank) -> None:
    assert json.loads(rank.membership.registration(anew=True)).get("child") is None
    rank.membership.welcomed(WELCOME)
    assert json.loads(rank.membership.registration(anew=True))["child"] == 2


CLAIM = "rank:7:none:rl-1/rl.py-7.0/0"
"""What a driver of Ray tells the workers that it starts."""


@pytest.mark.parametrize(
    ("launcher", "run", "child"), [("ray", "rl.py-7.0--h1-5000.0", None), ("none", "rl.py-7.0", 1)]
)
def test_an_actor_is_of_its_drivers_job_and_a_child_until_it_has_a_number(
    launcher: str, run: str, child: int | None, rank: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = replace(rank.membership.identity, launcher=launcher, run="h1-5000.0")
    monkeypatch.setattr(membership, "this_process", lambda: me)
    monkeypatch.setattr(membership, "actor_class", "Worker")
    monkeypatch.setenv("DBG_AUTOSTART", CLAIM)
    said = json.loads(Membership(rank, None).registration(anew=True))
    assert (said["identity"]["job"], said["identity"]["run"], said["child"]) == ("rl-1", run, child)
    assert said["process"]["name"] == "Worker"
