"""Tests of verdicts that a page gets without asking."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dbg_client.faces.web import verdicts
from dbg_client.faces.web.verdicts import told_of
from dbg_client.hang.explain import Case, Explanation, JobLook
from dbg_client.hang.verdict import Verdict, VerdictKind
from dbg_client.questions import standstill
from dbg_wire.messages import Action, Change, Kind, Question, RankAnswer
from dbg_wire.records.ranks import Place, RankState
from tests.support.pages import browser_at, run, served
from tests.support.rank_evidence import elsewhere, waiting
from tests.unit.client.fake_broker import FakeBroker, make_rank

RUNNING = [make_rank(number, state=RankState.RUNNING, reason=None, where=None) for number in (0, 1)]
MISSING = Verdict(kind=VerdictKind.MISSING, job="4711.0", sentence="rank 1 has not come", ranks=(1,), others=(0,))
LIBRARY = Place(file="/usr/lib/python3/site-packages/torch/c10d.py", line=9, function="all_reduce")
OWN = Place(file="/home/me/data.py", line=41, function="read")


def case_of(*frames: Place) -> Case:
    late = elsewhere(1)
    late = replace(late, answer=late.answer.replace(frames=frames))
    return Case(looks=[JobLook(at=0.0, everybody=[waiting(0), late])], now=1.0)


def explanation(*found: Verdict) -> Explanation:
    return Explanation(verdicts=found, asked=2, answered=2, missing=(), is_settled=True)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBroker]:
    monkeypatch.setattr(standstill, "SLACK_SECONDS", 0.0)

    async def find_case(*_: object, **__: object) -> tuple[Case, Explanation]:
        return case_of(OWN), explanation(MISSING)

    monkeypatch.setattr(verdicts, "find_case", find_case)
    with FakeBroker(*RUNNING) as serving:
        stand_at(serving, 1)
        yield serving


def stand_at(broker: FakeBroker, line: int) -> None:
    frames = (Place(file="/home/me/train.py", line=line, function="step"),)
    broker.answers[Action.WHERE] = RankAnswer(key="", kind=Kind.VALUE, text="running", frames=frames, age=100.0)


def test_a_verdict_says_where_its_ranks_stand_in_their_own_code() -> None:
    job = elsewhere(1).rank.job
    (told,) = told_of(case_of(OWN, LIBRARY), explanation(replace(MISSING, job=job)), (), 5.0)
    assert (told.job, told.at, told.sentence) == (job, 5.0, "rank 1 has not come")
    assert [(one.key, one.where) for one in told.places] == [(elsewhere(1).rank.key, OWN)]
    assert b"rank 1 has not come" in bytes(told.document or b"")


def test_a_job_that_stands_still_is_judged_until_it_moves(broker: FakeBroker) -> None:
    async def work() -> None:
        async with (
            served(broker.environment, hang_seconds=0.3) as (base, access, _),
            browser_at(base, access.new_token()) as browser,
            browser.live() as live,
        ):
            verdict = await live.until("verdict")
            assert verdict["sentence"] == "rank 1 has not come"
            assert verdict["document"]["verdicts"][0]["kind"] == "missing"
            assert [said["kind"] for said in live.said if said["type"] == "event"] == ["hang"]
            # Who comes later gets it, too.
            async with browser.live() as late:
                assert (await late.until("verdict"))["sentence"] == "rank 1 has not come"
            stand_at(broker, 2)
            assert (await live.until("verdict"))["document"] is None

    run(work)


def test_a_debugger_in_which_a_rank_stands_is_no_hang(broker: FakeBroker) -> None:
    async def work() -> None:
        async with (
            served(broker.environment, hang_seconds=0.3) as (base, access, _),
            browser_at(base, access.new_token()) as browser,
            browser.live() as live,
        ):
            await live.until("verdict")
            broker.tell(Change(rank=make_rank(1)))
            assert (await live.until("verdict"))["document"] is None

    run(work)


def test_nobody_is_asked_while_no_page_is_open(broker: FakeBroker) -> None:
    async def work() -> None:
        async with served(broker.environment, hang_seconds=0.03) as (_, _, server):
            looked = asyncio.Event()
            feed = server.feed
            pages = feed.pages

            class Counted(set):  # type: ignore[type-arg]
                looks = 0

                def __bool__(self) -> bool:
                    Counted.looks += 1
                    if Counted.looks == 5:
                        looked.set()
                    return len(self) > 0

            feed.pages = Counted(pages)
            await looked.wait()
            assert not any(isinstance(item, Question) for item in broker.received)

    run(work)
