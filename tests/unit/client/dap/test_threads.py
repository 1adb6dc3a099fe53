"""Ranks as threads: which are listed, and what an IDE receives as ranks stop, move and end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.api.inspection import RankError
from dbg_client.core.errors import Declined
from dbg_client.core.link import Down, Up
from dbg_client.dap.step_requests import Keyboard, StepRequests
from dbg_client.dap.threads import (
    MAX_LISTED,
    Continued,
    Exited,
    Started,
    Stopped,
    ThreadEvent,
    ThreadTable,
    choose_listed,
)
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, Answers, Change, Gone, Kind, RankAnswer, Refusal, RefusalCode, Snapshot, Welcome
from dbg_wire.records.ranks import Place, RankInfo, RankState
from tests.conftest import Approved
from tests.support.answers import answered
from tests.support.rank_infos import changed
from tests.unit.client.dap.shown import threads
from tests.unit.client.fake_broker import HERE, make_rank
from tests.unit.client.scripted_link import ScriptedLink

THERE = HERE.replace(line=HERE.line + 1)


def stopped(number: int, *, stop: int | None = 1, where: Place = HERE, reason: str = "breakpoint") -> RankInfo:
    return make_rank(number, stop=stop, where=where, reason=reason)


def running(number: int) -> RankInfo:
    return make_rank(number, state=RankState.RUNNING, where=None, reason=None)


def held(number: int) -> RankInfo:
    return make_rank(number, state=RankState.HELD, reason=None, stop=1)


def stops(events: Sequence[ThreadEvent]) -> list[tuple[int, str, bool]]:
    return [(one.thread, one.reason, one.is_ours) for one in events if isinstance(one, Stopped)]


def test_stop_and_continuation_are_each_reported_once() -> None:
    table = ThreadTable()
    assert table.update([running(0)]) == [Started(1)]
    assert stops(table.update([stopped(0)])) == [(1, "breakpoint", False)]
    assert table.update([stopped(0)]) == []
    assert table.is_stopped(stopped(0).key)
    assert table.update([running(0)]) == [Continued(1)]
    assert not table.is_stopped(stopped(0).key)
    assert table.update([]) == [Exited(1)]
    assert table.key(1) is None


@pytest.mark.parametrize(
    ("rank", "reason"),
    [
        (stopped(0, reason="interrupt"), "pause"),
        (stopped(0, reason="crash"), "exception"),
        (held(0), "held"),
        (stopped(0, reason="breakpoint"), "breakpoint"),
    ],
)
def test_stop_reason_uses_the_words_of_the_protocol(rank: RankInfo, reason: str) -> None:
    assert stops(ThreadTable().update([rank])) == [(1, reason, False)]


def test_step_of_this_window_is_reported_when_it_has_ended() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    key, before = stopped(0).key, table.version(stopped(0).key)
    table.start_move(key, is_step=True)
    assert table.version(key) != before
    assert table.update([running(0)]) == []
    assert table.update([stopped(0, where=THERE)]) == []
    table.end_move(key)
    assert stops(table.update([stopped(0, where=THERE)])) == [(1, "step", True)]


def test_continued_rank_is_not_reported_at_the_stop_that_it_leaves() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    table.start_move(stopped(0).key, is_step=False)
    table.end_move(stopped(0).key)
    assert table.update([stopped(0)]) == []
    assert not table.is_stopped(stopped(0).key)
    assert stops(table.update([stopped(0, stop=2)])) == [(1, "breakpoint", True)]


def test_step_of_a_terminal_is_reported_and_makes_handles_stale() -> None:
    table = ThreadTable()
    table.update([stopped(0)])
    before = table.version(stopped(0).key)
    assert stops(table.update([stopped(0, where=THERE)])) == [(1, "step", False)]
    assert table.version(stopped(0).key) != before


def test_crashed_ranks_are_first_then_rare_stops_then_held_and_running_ranks() -> None:
    ranks = [
        running(0),
        held(1),
        stopped(2),
        stopped(3),
        stopped(4, where=THERE),
        stopped(5, reason="crash"),
        make_rank(6, state=RankState.EXITED),
        make_rank(7, state=RankState.LOST),
    ]
    assert [rank.rank for rank in choose_listed(ranks, 64)] == [5, 4, 2, 3, 1, 0]
    assert [rank.rank for rank in choose_listed(ranks, 2)] == [5, 4]


def test_crashed_rank_replaces_another_one_in_the_list() -> None:
    table = ThreadTable(most=2)
    table.update([stopped(number) for number in range(4)])
    assert [rank.rank for rank in table.listed] == [0, 1]
    events = table.update([*(stopped(number) for number in range(3)), stopped(3, stop=2, reason="crash")])
    assert [rank.rank for rank in table.listed] == [3, 0]
    assert Exited(2) in events
    assert (4, "exception", False) in stops(events)
    # The rank that was removed is reported again when there is room, as it stands.
    events = table.update([stopped(number) for number in range(2)])
    assert Started(2) in events
    assert stops(events) == [(2, "breakpoint", False)]


def standing(ranks: dict[int, RankInfo]) -> set[str]:
    return {rank.key for rank in ranks.values() if rank.where is not None}


STATES = st.sampled_from([stopped, running, held, None])


@given(st.lists(st.tuples(st.integers(0, 4), STATES, st.integers(1, 3)), max_size=40))
def test_events_add_up_to_the_current_state(changes: list[tuple[int, object, int]]) -> None:
    table, ranks = ThreadTable(most=3), dict[int, RankInfo]()
    listed: dict[int, bool] = {}
    for number, make, stop in changes:
        if make is None:
            ranks.pop(number, None)
        else:
            rank = make(number)  # type: ignore[operator]
            ranks[number] = changed(rank, stop=stop) if rank.stop is not None else rank
        for event in table.update(list(ranks.values())):
            assert (event.thread in listed) != isinstance(event, Started)
            if isinstance(event, Exited):
                del listed[event.thread]
            else:
                assert not isinstance(event, Continued) or listed[event.thread]
                listed[event.thread] = isinstance(event, Stopped)
        assert len(listed) == min(3, len(ranks))
        assert listed == {table.thread(rank.key): table.is_stopped(rank.key) for rank in table.listed}
        assert all(is_stopped == (table.key(thread) in standing(ranks)) for thread, is_stopped in listed.items())


HELD = make_rank(1, state=RankState.HELD, reason=None, stop=1)
STOPPED = make_rank(0, stop=1)


def answer_of(rank: RankInfo, kind: Kind, text: str = "", request: int = 0) -> Answers:
    return answered(request, RankAnswer(key=rank.key, kind=kind, text=text))


def test_continue_resumes_a_stopped_rank_and_releases_a_held_one() -> None:
    for rank, action in ((STOPPED, Action.CONTINUE), (HELD, Action.RELEASE)):
        link = ScriptedLink([answer_of(rank, Kind.VALUE, "continued")])

        async def resume(link: ScriptedLink = link, rank: RankInfo = rank) -> None:
            async with threads(link, [rank]) as (listing, shown, window):
                moves = StepRequests(window, listing, Keyboard(window))
                thread = listing.table.thread(rank.key)
                assert await moves.go_on({"threadId": thread}) == {"allThreadsContinued": False}
                with pytest.raises(BadInput, match="is running"):
                    listing.stopped_rank(thread)
                await asyncio.gather(*moves._open)
                # It is still listed at the stop that it leaves, and this is not reported.
                assert len(shown.named("stopped")) == 1
                assert not listing.table.is_stopped(rank.key)

        asyncio.run(resume())
        assert [asked.action for asked in link.sent] == [action]


def test_refused_move_is_reported_with_the_current_stop(approved: Approved) -> None:
    link = ScriptedLink([answer_of(STOPPED, Kind.ERROR, "not in this rank")])

    async def resume() -> None:
        async with threads(link, [STOPPED]) as (listing, shown, window):
            moves = StepRequests(window, listing, Keyboard(window))
            await moves.go_on({"threadId": listing.table.thread(STOPPED.key)})
            await asyncio.gather(*moves._open)
            (output,) = shown.named("output")
            approved(output["output"])
            assert len(shown.named("stopped")) == 2
            assert listing.table.is_stopped(STOPPED.key)

    asyncio.run(resume())


def test_token_of_a_watcher_cannot_move_ranks() -> None:
    link = ScriptedLink([Refusal(code=RefusalCode.ROLE, text="a watcher looks", request=0)])
    link.welcome = Welcome(minor=0, release="1", host="h", pid=1, uptime=0.0, role="watcher")

    async def step() -> None:
        async with threads(link, [STOPPED]) as (listing, _, window):
            with pytest.raises(Declined, match="a watcher looks"):
                await StepRequests(window, listing, Keyboard(window)).step("next", {"threadId": 1})
            assert listing.table.is_stopped(STOPPED.key)

    asyncio.run(step())


def test_rank_driven_by_another_user_cannot_be_moved() -> None:
    driven = make_rank(0, stop=1, driver="ann@login1")

    async def step() -> None:
        async with threads(ScriptedLink(), [driven]) as (listing, _, window):
            moves = StepRequests(window, listing, Keyboard(window))
            for move in (moves.step("next", {"threadId": 1}), moves.go_on({"threadId": 1})):
                with pytest.raises(BadInput, match="ann@login1 types at gpu013:0; write `take`"):
                    await move
            assert listing.table.is_stopped(driven.key)

    asyncio.run(step())


@pytest.mark.parametrize(
    ("kind", "console"),
    [(Kind.RUNNING, ["gpu013:4: in C code\n"]), (Kind.ERROR, None), (Kind.LOST, None)],
    ids=lambda one: one.value if isinstance(one, Kind) else "",
)
def test_failed_pause_is_reported_in_the_console_or_the_answer(kind: Kind, console: list[str] | None) -> None:
    running = make_rank(4, state=RankState.RUNNING, reason=None)
    link = ScriptedLink([answer_of(running, kind, "in C code")])

    async def pause() -> None:
        async with threads(link, [running]) as (listing, shown, window):
            keyboard = Keyboard(window)
            with nullcontext() if console is not None else pytest.raises(RankError, match="gpu013:4: in C code"):
                await StepRequests(window, listing, keyboard).pause({"threadId": listing.table.thread(running.key)})
            assert [output["output"] for output in shown.named("output")] == (console or [])
            keyboard.close()

    asyncio.run(pause())
    assert [asked.action for asked in link.sent] == [Action.INTERRUPT]


async def test_nvim_continues_no_rank_by_itself_while_it_shows_another_one() -> None:
    """It sends `continue` for each stop with another reason than `pause`, unless it has sent a move since then."""
    ranks = [make_rank(number, stop=1) for number in range(3)]
    link = ScriptedLink()

    async with threads(link, ranks, resumes_by_itself=True) as (listing, shown, _):

        async def reasons(count: int) -> list[str]:
            await shown.until(lambda: len(shown.named("stopped")) == count)
            return [one["reason"] for one in shown.named("stopped")]

        assert await reasons(3) == ["breakpoint", "pause", "pause"]
        # The user steps the first rank, and is shown where it stops; then a terminal steps another one.
        first, second = ranks[:2]
        listing.start_move(first, is_step=True)
        listing.table.end_move(first.key)
        link.events.put_nowait(Change(rank=changed(first, where=THERE)))
        assert (await reasons(4))[-1] == "step"
        link.events.put_nowait(Change(rank=changed(second, where=THERE)))
        assert (await reasons(5))[-1] == "pause"
        # The user lets the first one go on; while it runs, the next stop is shown, and so its own one is not.
        listing.start_move(first, is_step=False)
        listing.table.end_move(first.key)
        for rank in (*(running(number) for number in range(3)), changed(second, stop=2)):
            link.events.put_nowait(Change(rank=rank))
        assert (await reasons(6))[-1] == "breakpoint"
        link.events.put_nowait(Change(rank=changed(first, stop=2)))
        assert (await reasons(7))[-1] == "pause"
        # A rank that has ended is none at which it stands.
        shown.received.clear()
        link.events.put_nowait(Gone(key=second.key))
        await shown.until(lambda: len(shown.named("thread")) == 1)
        assert [one["threadId"] for one in shown.named("continued")] == [shown.named("thread")[0]["threadId"]]


async def test_ranks_beyond_the_limit_are_reported() -> None:
    ranks = [running(number) for number in range(MAX_LISTED + 9)]

    async with threads(ScriptedLink(), ranks) as (listing, shown, _):
        assert len((await listing.threads({}))["threads"]) == MAX_LISTED
        (output,) = shown.named("output")
        assert output["output"].startswith("9 more ranks")


async def test_passed_stop_is_reported_once() -> None:
    link = ScriptedLink()
    passed = running(0).replace(passed="a.py:5 without stopping, because no broker answered")

    async with threads(link, [passed, running(1)]) as (listing, shown, _window):
        listing.refresh()
        for rank in (passed.replace(passed=""), passed.replace(passed="a.py:9 without stopping, because it ended")):
            link.events.put_nowait(Change(rank=rank))
            await shown.until(lambda: bool(shown.received))
            listing.refresh()
        await shown.until(lambda: len(shown.named("output")) == 2)
        assert [one["output"] for one in shown.named("output")] == [
            f"{passed.address} passed a.py:5 without stopping, because no broker answered\n",
            f"{passed.address} passed a.py:9 without stopping, because it ended\n",
        ]


async def test_absent_broker_is_reported_once_and_its_ranks_stay(approved: Approved) -> None:
    link = ScriptedLink()
    ranks = [make_rank(number, stop=1) for number in range(3)]

    async with threads(link, ranks) as (listing, shown, _window):
        shown.received.clear()
        for event in (Down("it shut down"), Down("no answer"), Up()):
            link.events.put_nowait(event)
        await shown.until(lambda: len(shown.received) == 2)
        link.events.put_nowait(Snapshot(ranks=(ranks[0].replace(since=5.0),), last=True))
        link.events.put_nowait(Change(rank=ranks[2].replace(since=5.0)))
        link.events.put_nowait(Change(rank=running(2)))
        await shown.until(lambda: bool(shown.named("continued")))
        approved("".join(one["output"] for one in shown.named("output")))
        assert shown.named("thread") == shown.named("stopped") == []
        assert len((await listing.threads({}))["threads"]) == 3


async def test_a_window_stays_with_its_job() -> None:
    link = ScriptedLink()
    other = make_rank(0, job="other", key="other", address="gpu099:0")

    async with threads(link, [make_rank(0)]) as (listing, shown, window):
        link.events.put_nowait(Change(rank=other))
        link.events.put_nowait(Change(rank=make_rank(1)))
        await shown.until(lambda: len(shown.named("stopped")) == 2)
        assert window.job == "4711.0"
        assert [one["name"] for one in (await listing.threads({}))["threads"]] == ["gpu013:0", "gpu013:1"]
