"""Tests of what a page receives of ranks: rows and verdicts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dbg_client.after.case_file import CaseFile, lines_of, snapshots_of
from dbg_client.after.files import NothingToRead, saved_job
from dbg_client.web import feed
from dbg_client.web.feed import hang_verdicts
from dbg_client.web.messages import Axis
from dbg_client.web.rows import Rows, row_of
from dbg_client.why.explain import Explanation, HangEvidence, JobSnapshot
from dbg_client.why.sentences import sentence_of
from dbg_client.why.verdict import Finding, Topic, Verdict, VerdictKind
from dbg_command.targets import parse_target
from dbg_wire.messages import Action, Change, Kind, RankAnswer
from dbg_wire.records.ranks import Coordinate, Place, RankState
from tests.support.pages import browser_at, served
from tests.support.rank_evidence import elsewhere, waiting
from tests.support.rank_infos import changed
from tests.unit.client.fake_broker import FakeBroker, make_rank


def shown(rows: tuple[msgspec.Raw, ...]) -> list[dict[str, Any]]:
    return [json.loads(bytes(row)) for row in rows]


def test_a_row_contains_finished_text() -> None:
    coordinates = (Coordinate(axis="dp", index=1), Coordinate(axis="tp", index=3))
    rank = make_rank(5, reason="crash", driver="lena", watchers=2, queued=1, error="bad", coordinates=coordinates)
    row = json.loads(bytes(row_of(rank)))
    assert (row["key"], row["rank"], row["state"], row["place"]) == (rank.key, 5, "crashed", "train.py:41 in step")
    assert (row["who"], row["detail"]) == ("lena, 2 watching", "bad; 1 queued")
    assert row["coordinates"] == {"dp": 1, "tp": 3}


def test_only_changed_rows_are_sent_again() -> None:
    one, two = make_rank(1), make_rank(2)
    rows = Rows(None)
    assert len(rows.choose([one, two]).rows) == 2
    before = rows.all
    running = changed(two, state=RankState.RUNNING)
    changes = rows.choose([one, running])
    assert [row["state"] for row in shown(changes.rows)] == ["running"]
    assert rows.all[0] is before[0]
    # A broker that is started anew lists the same ranks as other objects.
    assert rows.choose([changed(one), changed(running)]).rows == ()


def test_a_target_limits_the_rows_to_its_ranks() -> None:
    rows = Rows(parse_target("1-2"))
    assert len(rows.choose([make_rank(n) for n in range(4)]).rows) == 2
    assert Rows(parse_target("7")).choose([make_rank(1)]).rows == ()


def test_missing_ranks_and_the_mesh_size_are_reported() -> None:
    rows = Rows(None)
    rows.choose([make_rank(n, world_size=4, coordinates=(Coordinate(axis="dp", index=n),)) for n in (0, 2)])
    assert [one.partition(" ")[0] for one in rows.job.missing] == ["1,3"]
    assert rows.job.axes == (Axis(name="dp", size=3),)


RUNNING_VERDICTS = [make_rank(number, state=RankState.RUNNING, reason=None, where=None) for number in (0, 1)]
MISSING = Verdict(
    kind=VerdictKind.MISSING,
    job="4711.0",
    finding=Finding(topic=Topic.NO_DUMP, ranks=(1,)),
    ranks=(1,),
    others=(0,),
)
OWN = Place(file="/home/me/data.py", line=41, function="read")


def case_of(*frames: Place) -> HangEvidence:
    late = elsewhere(1)
    late = replace(late, answer=late.answer.replace(frames=frames))
    return HangEvidence(snapshots=[JobSnapshot(at=0.0, everybody=[waiting(0), late])], now=1.0)


def explanation(*found: Verdict) -> Explanation:
    return Explanation(verdicts=found, asked=2, answered=2, missing=(), is_settled=True)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBroker]:
    ages = itertools.count(1)

    async def find_case(*_: object, **__: object) -> tuple[HangEvidence, Explanation]:
        return case_of(OWN), explanation(replace(MISSING, age=next(ages)))

    monkeypatch.setattr(feed, "find_case", find_case)
    with FakeBroker(*RUNNING_VERDICTS) as serving:
        stand_at(serving, 1)
        yield serving


def stand_at(broker: FakeBroker, line: int) -> None:
    frames = (Place(file="/home/me/train.py", line=line, function="step"),)
    broker.answers[Action.WHERE] = RankAnswer(key="", kind=Kind.VALUE, text="running", frames=frames, age=100.0)


def test_a_verdict_has_the_worst_sentence_of_its_job() -> None:
    job = elsewhere(1).rank.job
    (message,) = hang_verdicts(explanation(replace(MISSING, job=job)), ())
    assert message.job == job
    assert sentence_of(MISSING).encode() in bytes(message.verdicts[0])


async def test_a_job_without_progress_is_judged_until_it_moves(broker: FakeBroker) -> None:
    async with (
        served(broker.environment, hang_seconds=0.6) as (base, access, _),
        browser_at(base, access.new_token()) as browser,
        browser.live() as live,
    ):
        verdict = await live.until("verdict")
        assert verdict["verdicts"][0]["kind"] == "missing"
        # It is looked at again, and grows older.
        assert (await live.until("verdict"))["verdicts"] != verdict["verdicts"]
        stand_at(broker, 2)
        await live.until("verdict", lambda message: not message["verdicts"])


async def test_a_hanging_job_is_judged_when_a_page_opens_and_its_verdict_is_kept(broker: FakeBroker) -> None:
    async with (
        served(broker.environment) as (base, access, _),
        browser_at(base, access.new_token()) as browser,
    ):
        async with browser.live() as live:
            first = await live.until("verdict")
        # It may have moved while no page was open, and it hangs again; what is known is there at once.
        stand_at(broker, 2)
        async with browser.live() as live:
            assert (await live.until("verdict"))["verdicts"] == first["verdicts"]
            assert (await live.until("verdict"))["verdicts"] != first["verdicts"]


async def test_a_rank_stopped_in_the_debugger_is_no_hang(broker: FakeBroker) -> None:
    async with (
        served(broker.environment, hang_seconds=0.6) as (base, access, _),
        browser_at(base, access.new_token()) as browser,
        browser.live() as live,
    ):
        await live.until("verdict")
        broker.send_all(Change(rank=make_rank(1)))
        assert (await live.until("verdict"))["verdicts"] == []


async def test_a_report_is_shown_without_a_broker(tmp_path: Path) -> None:
    job = [waiting(0), waiting(1), elsewhere(2)]
    made = [replace(one, answer=one.answer.replace(frames=(OWN,))) for one in job]
    case = HangEvidence(snapshots=[JobSnapshot(at=0.0, everybody=made)], now=1_790_000_000.0)
    ranks = tuple(one.rank for one in job)
    file = CaseFile(about="dbg-attach report", now=case.now, ranks=ranks, snapshots=snapshots_of(case))
    path = tmp_path / "report.txt"
    path.write_text("\n".join(["dbg-attach report about all", *lines_of(file)]))
    saved = saved_job((str(path),), None)
    assert saved is not None
    async with served({}, saved=saved) as (base, access, _), browser_at(base, access.new_token()) as browser:
        async with browser.live() as live:
            hello = await live.until("hello")
            assert (hello["drive"], hello["now"]) == (False, case.now)
            assert set(await live.rows()) == {0, 1, 2}
            assert (await live.until("verdict"))["verdicts"][0]["kind"] == "missing"
            assert "data.py:41" in (await live.answer(1, "where"))["tree"][-1]["text"]
            assert [one["kind"] for one in (await live.answer(2, "why"))["verdicts"]] == ["missing"]
            for number, line in enumerate(("loss", "slow", "continue"), 3):
                assert (await live.answer(number, line))["type"] == "failed"
        async with browser.terminal(ranks[0].key) as terminal:
            assert await terminal.until("ended")
    with pytest.raises(NothingToRead):
        saved_job((str(tmp_path / "none.txt"),), None)
    assert saved_job((), "0-3") is None
