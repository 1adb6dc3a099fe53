"""Tests of what a page is told of ranks: events, rows, and verdicts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dbg_client.web import verdicts
from dbg_client.web.feed import MAX_EVENTS, TimeLine
from dbg_client.web.messages import Axis
from dbg_client.web.rows import Rows, row_of
from dbg_client.web.verdicts import told_of
from dbg_client.why.explain import Case, Explanation, JobLook
from dbg_client.why.sentences import sentence_of
from dbg_client.why.verdict import Finding, Topic, Verdict, VerdictKind
from dbg_command.targets import parse_target
from dbg_wire.messages import Action, Change, Kind, RankAnswer
from dbg_wire.records.ranks import Coordinate, Place, RankInfo, RankState
from tests.conftest import Approved
from tests.support.pages import browser_at, served
from tests.support.rank_evidence import elsewhere, waiting
from tests.support.rank_infos import changed
from tests.unit.client.fake_broker import FakeBroker, make_rank

RUNNING = make_rank(1, state=RankState.RUNNING, reason=None, where=None)


def kinds(*pairs: tuple[RankInfo | None, RankInfo]) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in TimeLine().changed(pairs, 1.0)]


def test_what_happens_to_many_at_once_is_one_event() -> None:
    stopped = [make_rank(n, key=f"j/{n}") for n in range(64)]
    pairs = [(changed(one, state=RankState.RUNNING), one) for one in stopped]
    (event,) = TimeLine().changed(pairs, 12.5)
    assert (event.number, event.at, event.kind, event.count) == (1, 12.5, "stop", 64)
    assert (event.key, event.rank, event.ranks) == ("j/0", "gpu013:0", "0-63")
    assert event.text == "stopped (breakpoint) at train.py:41 in step"


def test_each_change_of_state_has_its_kind(approved: Approved) -> None:
    stopped, crashed = make_rank(1), make_rank(1, reason="crash", detail="ValueError: bad <b>batch</b>")
    silent, held = (changed(RUNNING, state=state) for state in (RankState.UNRESPONSIVE, RankState.HELD))
    pairs: dict[str, tuple[RankInfo | None, RankInfo]] = {
        "came": (None, RUNNING),
        "crash": (RUNNING, crashed),
        "goes_on": (stopped, RUNNING),
        "held": (RUNNING, held),
        "silent": (RUNNING, silent),
        "back": (silent, RUNNING),
        "exit": (RUNNING, changed(RUNNING, state=RankState.EXITED, exit=-9)),
    }
    told = {kind: kinds(pair) for kind, pair in pairs.items()}
    assert [kind for kind, events in told.items() if [one for one, _ in events] == [kind]] == list(pairs)
    approved("\n".join(text for events in told.values() for _, text in events))


def test_what_a_terminal_would_obey_is_escaped_and_old_events_are_forgotten() -> None:
    line = TimeLine()
    assert line.note("asked", "eval '\x1b[2J'", 1.0).text == "eval '\\x1b[2J'"
    for number in range(MAX_EVENTS + 5):
        line.note("asked", str(number), 1.0)
    assert len(line.events) == MAX_EVENTS
    assert line.events[-1].number == MAX_EVENTS + 6


def shown(rows: tuple[msgspec.Raw, ...]) -> list[dict[str, Any]]:
    return [json.loads(bytes(row)) for row in rows]


def test_a_row_is_finished_text() -> None:
    coordinates = (Coordinate(axis="dp", index=1), Coordinate(axis="tp", index=3))
    rank = make_rank(5, reason="crash", driver="lena", watchers=2, queued=1, detail="bad", coordinates=coordinates)
    row = json.loads(bytes(row_of(rank)))
    assert (row["key"], row["rank"], row["state"], row["place"]) == (rank.key, 5, "crashed", "train.py:41 in step")
    assert (row["who"], row["detail"]) == ("lena, 2 watching", "bad; 1 queued")
    assert row["coordinates"] == {"dp": 1, "tp": 3}


def test_only_what_has_changed_is_made_anew() -> None:
    one, two = make_rank(1), make_rank(2)
    rows = Rows(None)
    assert len(rows.choose([one, two]).rows) == 2
    before = rows.all
    running = changed(two, state=RankState.RUNNING)
    changes = rows.choose([one, running])
    assert [row["state"] for row in shown(changes.rows)] == ["running"]
    assert changes.pairs == ((two, running),)
    assert rows.all[0] is before[0]
    # A broker that is started anew lists the same ranks as other objects.
    assert rows.choose([changed(one), changed(running)]).rows == ()


def test_a_target_has_its_ranks_alone_and_none_where_nothing_fits() -> None:
    rows = Rows(parse_target("1-2"))
    assert len(rows.choose([make_rank(n) for n in range(4)]).rows) == 2
    assert Rows(parse_target("7")).choose([make_rank(1)]).rows == ()


def test_who_never_came_is_told_and_how_large_the_mesh_is() -> None:
    rows = Rows(None)
    rows.choose([make_rank(n, world_size=4, coordinates=(Coordinate(axis="dp", index=n),)) for n in (0, 2)])
    assert [one.partition(" ")[0] for one in rows.job.missing] == ["1,3"]
    assert rows.job.axes == (Axis(name="dp", size=3),)


def test_ranks_that_come_back_have_not_been_missing_and_their_old_stops_are_no_news() -> None:
    ranks = [make_rank(number, world_size=3, stop=1.0) for number in (0, 1)]
    rows = Rows(None)
    rows.choose(ranks)
    rows.choose(ranks[:1])
    assert [one.partition(" ")[0] for one in rows.job.missing] == ["2"]
    again = changed(ranks[1], since=ranks[1].since + 60)
    changes = rows.choose([ranks[0], again])
    assert [row["rank"] for row in shown(changes.rows)] == [1]
    assert kinds(*changes.pairs) == []


RUNNING_VERDICTS = [make_rank(number, state=RankState.RUNNING, reason=None, where=None) for number in (0, 1)]
MISSING = Verdict(
    kind=VerdictKind.MISSING,
    job="4711.0",
    finding=Finding(topic=Topic.NO_DUMP, ranks=(1,)),
    ranks=(1,),
    others=(0,),
)
OWN = Place(file="/home/me/data.py", line=41, function="read")


def case_of(*frames: Place) -> Case:
    late = elsewhere(1)
    late = replace(late, answer=late.answer.replace(frames=frames))
    return Case(looks=[JobLook(at=0.0, everybody=[waiting(0), late])], now=1.0)


def explanation(*found: Verdict) -> Explanation:
    return Explanation(verdicts=found, asked=2, answered=2, missing=(), is_settled=True)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBroker]:
    ages = itertools.count(1)

    async def find_case(*_: object, **__: object) -> tuple[Case, Explanation]:
        return case_of(OWN), explanation(replace(MISSING, age=next(ages)))

    monkeypatch.setattr(verdicts, "find_case", find_case)
    with FakeBroker(*RUNNING_VERDICTS) as serving:
        stand_at(serving, 1)
        yield serving


def stand_at(broker: FakeBroker, line: int) -> None:
    frames = (Place(file="/home/me/train.py", line=line, function="step"),)
    broker.answers[Action.WHERE] = RankAnswer(key="", kind=Kind.VALUE, text="running", frames=frames, age=100.0)


def test_a_verdict_has_the_worst_sentence_of_its_job() -> None:
    job = elsewhere(1).rank.job
    ((sentence, told),) = told_of(explanation(replace(MISSING, job=job)), ())
    assert (told.job, sentence) == (job, sentence_of(MISSING))
    assert sentence_of(MISSING).encode() in bytes(told.verdicts[0])


async def test_a_job_that_stands_still_is_judged_until_it_moves(broker: FakeBroker) -> None:
    async with (
        served(broker.environment, hang_seconds=0.6) as (base, access, _),
        browser_at(base, access.new_token()) as browser,
        browser.live() as live,
    ):
        verdict = await live.until("verdict")
        assert verdict["verdicts"][0]["kind"] == "missing"
        # It is looked at again, and grows older; it is one hang.
        assert (await live.until("verdict"))["verdicts"] != verdict["verdicts"]
        assert [said["kind"] for said in live.said if said["type"] == "event"] == ["hang"]
        stand_at(broker, 2)
        await live.until("verdict", lambda said: not said["verdicts"])


async def test_a_job_that_hangs_is_judged_when_a_page_opens_and_the_verdict_is_kept(broker: FakeBroker) -> None:
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
            assert [said["kind"] for said in live.said if said["type"] == "event"] == ["hang"]


async def test_a_debugger_in_which_a_rank_stands_is_no_hang(broker: FakeBroker) -> None:
    async with (
        served(broker.environment, hang_seconds=0.6) as (base, access, _),
        browser_at(base, access.new_token()) as browser,
        browser.live() as live,
    ):
        await live.until("verdict")
        broker.tell(Change(rank=make_rank(1)))
        assert (await live.until("verdict"))["verdicts"] == []
