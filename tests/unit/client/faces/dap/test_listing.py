"""What an IDE is told of many ranks, and of a broker that goes and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dbg_client.core.link import Down, Up
from dbg_client.faces.dap.moves import Keyboard, Moves
from dbg_client.faces.dap.threads import MAX_LISTED, REST, ThreadEvent
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, Answers, Change, Kind, RankAnswer, Snapshot
from dbg_wire.records.ranks import RankInfo, RankState
from tests.unit.client.faces.dap.shown import threads
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink


def running(number: int) -> RankInfo:
    return make_rank(number, state=RankState.RUNNING, where=None, reason=None)


def test_the_ranks_beyond_the_most_are_one_entry_that_pauses_those_that_run() -> None:
    ranks = [make_rank(number) for number in range(MAX_LISTED - 1)] + [running(number) for number in range(100, 110)]
    answers = Answers(request=0, answers=tuple(RankAnswer(key=one.key, kind=Kind.VALUE, text="") for one in ranks[-9:]))
    link = ScriptedLink([answers])

    async def look() -> None:
        async with threads(link, ranks) as (listing, _, window):
            rows = (await listing.threads({}))["threads"]
            assert len(rows) == MAX_LISTED + 1
            assert rows[-1] == {"id": REST, "name": "9 more: 101-109"}
            with pytest.raises(BadInput):
                listing.stopped_rank(REST)
            await Moves(window, listing, Keyboard(window)).pause({"threadId": REST})

    asyncio.run(look())
    (asked,) = link.sent
    assert asked.action is Action.INTERRUPT
    assert list(asked.keys) == [one.key for one in ranks[-9:]]


def test_many_changes_at_once_are_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    link = ScriptedLink()
    looks: list[int] = []
    ranks = [running(number) for number in range(200)]

    async def stop() -> None:
        async with threads(link, ranks) as (listing, shown, _window):
            update = listing.table.update

            def counted(ranks: Sequence[RankInfo]) -> list[ThreadEvent]:
                looks.append(len(ranks))
                return update(ranks)

            monkeypatch.setattr(listing.table, "update", counted)
            assert shown.named("stopped") == []
            for number in range(200):
                link.events.put_nowait(Change(rank=make_rank(number)))
            await shown.until(lambda: len(shown.named("stopped")) == MAX_LISTED)
            assert [one["preserveFocusHint"] for one in shown.named("stopped")] == [False] + [True] * (MAX_LISTED - 1)
            # A slow machine may need a few; each change would be one of 200.
            assert len(looks) < 20

    asyncio.run(stop())


def test_a_stop_that_a_rank_has_passed_is_told_once() -> None:
    link = ScriptedLink()
    passed = running(0).replace(passed="a.py:5 without stopping, because no broker answered")

    async def look() -> None:
        async with threads(link, [passed, running(1)]) as (listing, shown, _window):
            listing.refresh()
            for rank in (passed.replace(passed=""), passed.replace(passed="a.py:9 without stopping, because it ended")):
                link.events.put_nowait(Change(rank=rank))
                await shown.until(lambda: bool(shown.said))
                listing.refresh()
            await shown.until(lambda: len(shown.named("output")) == 2)
            assert [one["output"] for one in shown.named("output")] == [
                f"{passed.address} passed a.py:5 without stopping, because no broker answered\n",
                f"{passed.address} passed a.py:9 without stopping, because it ended\n",
            ]

    asyncio.run(look())


def test_a_broker_that_is_away_is_told_once_and_its_ranks_stay() -> None:
    link = ScriptedLink()
    ranks = [make_rank(number, stop=1) for number in range(3)]

    async def lose() -> None:
        async with threads(link, ranks) as (listing, shown, _window):
            shown.said.clear()
            for event in (Down("it shut down"), Down("no answer"), Up()):
                link.events.put_nowait(event)
            await shown.until(lambda: len(shown.said) == 2)
            link.events.put_nowait(Snapshot(ranks=(ranks[0].replace(since=5.0),), last=True))
            link.events.put_nowait(Change(rank=ranks[2].replace(since=5.0)))
            link.events.put_nowait(Change(rank=running(2)))
            await shown.until(lambda: bool(shown.named("continued")))
            assert [one["output"] for one in shown.named("output")] == [
                "The broker is gone, reconnecting (it shut down).\n",
                "The broker is back.\n",
            ]
            assert shown.named("thread") == shown.named("stopped") == []
            assert len((await listing.threads({}))["threads"]) == 3

    asyncio.run(lose())


def test_a_window_stays_with_its_job() -> None:
    link = ScriptedLink()
    other = make_rank(0, job="other", key="other", address="gpu099:0")

    async def stay() -> None:
        async with threads(link, [make_rank(0)]) as (listing, shown, window):
            link.events.put_nowait(Change(rank=other))
            link.events.put_nowait(Change(rank=make_rank(1)))
            await shown.until(lambda: len(shown.named("stopped")) == 2)
            assert window.job == "4711.0"
            assert [one["name"] for one in (await listing.threads({}))["threads"]] == ["gpu013:0", "gpu013:1"]

    asyncio.run(stay())
