"""Which question each move asks, and what an IDE is told of the answer."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

from dbg_client.core.errors import Declined
from dbg_client.faces.dap import listing as listing_module
from dbg_client.faces.dap.moves import Keyboard, Moves
from dbg_client.questions.inspection import RankError
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, Answers, Change, Kind, RankAnswer, Refusal, RefusalCode, Welcome
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.support.rank_infos import changed
from tests.unit.client.faces.dap.shown import threads
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink

HELD = make_rank(1, state=RankState.HELD, reason=None, stop=1)
STOPPED = make_rank(0, stop=1)
NEVER_TYPED = 3600.0
"""Seconds after a stop in which nothing counts as typed: more than a test takes."""


def answered(rank: RankInfo, kind: Kind, text: str = "", request: int = 0) -> Answers:
    return Answers(request=request, answers=(RankAnswer(key=rank.key, kind=kind, text=text),))


def test_continue_lets_a_stopped_rank_go_on_and_a_held_one_wait_no_longer() -> None:
    for rank, action in ((STOPPED, Action.CONTINUE), (HELD, Action.RELEASE)):
        link = ScriptedLink([answered(rank, Kind.VALUE, "continued")])

        async def go_on(link: ScriptedLink = link, rank: RankInfo = rank) -> None:
            async with threads(link, [rank]) as (listing, shown, window):
                moves = Moves(window, listing, Keyboard(window))
                thread = listing.table.thread(rank.key)
                assert await moves.go_on({"threadId": thread}) == {"allThreadsContinued": False}
                with pytest.raises(BadInput, match="is running"):
                    listing.stopped_rank(thread)
                await asyncio.gather(*moves._open)
                # It is still listed at the stop that it leaves, and nothing is told of that.
                assert len(shown.named("stopped")) == 1
                assert not listing.table.stands(rank.key)

        asyncio.run(go_on())
        assert [asked.action for asked in link.sent] == [action]


def test_a_move_that_a_rank_refuses_is_told_with_where_it_stands(approved: Approved) -> None:
    link = ScriptedLink([answered(STOPPED, Kind.ERROR, "no debugger can be opened in this rank")])

    async def go_on() -> None:
        async with threads(link, [STOPPED]) as (listing, shown, window):
            moves = Moves(window, listing, Keyboard(window))
            await moves.go_on({"threadId": listing.table.thread(STOPPED.key)})
            await asyncio.gather(*moves._open)
            (said,) = shown.named("output")
            approved(said["output"])
            assert len(shown.named("stopped")) == 2
            assert listing.table.stands(STOPPED.key)

    asyncio.run(go_on())


def test_ranks_that_an_ide_lets_go_by_itself_as_they_are_shown_stay() -> None:
    """As nvim-dap does with every rank but the first that stops."""
    others = [make_rank(number, stop=1) for number in (1, 2)]
    in_turn = enumerate((others[0], STOPPED, others[1]))
    link = ScriptedLink(*([answered(rank, Kind.VALUE, "continued", request)] for request, rank in in_turn))

    async def attach(monkeypatch: pytest.MonkeyPatch) -> None:
        async with threads(link, [STOPPED, *others]) as (listing, shown, window):
            moves = Moves(window, listing, Keyboard(window))
            loop = asyncio.get_running_loop()
            first, second, third = (one["threadId"] for one in shown.named("stopped"))
            for thread in (second, third):
                with pytest.raises(BadInput):
                    await moves.go_on({"threadId": thread})
                assert listing.stopped_rank(thread)
            assert len(shown.named("stopped")) == 3
            (said,) = shown.named("output")
            assert "`dap.defaults.ranks.auto_continue_if_many_stopped = false`" in said["output"]
            # Later, a user has chosen it.
            now = loop.time()
            monkeypatch.setattr(loop, "time", lambda: now + 1)
            await moves.go_on({"threadId": second})
            # The first one that was shown, and then the only one, stands for no other.
            await moves.go_on({"threadId": first})
            monkeypatch.undo()
            await moves.go_on({"threadId": third})
            await asyncio.gather(*moves._open)

    with pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(attach(monkeypatch))
    assert [asked.action for asked in link.sent] == [Action.CONTINUE] * 3


def stepped(rank: RankInfo, line: int = 500) -> Change:
    """Return the change by which a rank's step is told."""
    place = rank.where
    assert place is not None
    return Change(rank=changed(rank, where=place.replace(line=line)))


def test_ranks_that_somebody_else_steps_stay_where_an_ide_lets_them_go_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `command all n` of a terminal does, with nvim-dap attached."""
    other = make_rank(1, stop=1)
    link = ScriptedLink()
    monkeypatch.setattr(listing_module, "TYPED_SECONDS", NEVER_TYPED)

    async def attach() -> None:
        async with threads(link, [STOPPED, other]) as (listing, shown, _):
            for rank in (STOPPED, other):
                link.events.put_nowait(stepped(rank))
            await shown.until(lambda: len(shown.named("stopped")) == 4)
            assert [one["reason"] for one in shown.named("stopped")[2:]] == ["step", "step"]
            with pytest.raises(BadInput, match="stays"):
                listing.require_typed(other)

    asyncio.run(attach())


@pytest.mark.parametrize("stops_meanwhile", [False, True])
def test_a_user_may_type_on_behind_a_step_unless_another_rank_has_stopped_meanwhile(
    monkeypatch: pytest.MonkeyPatch, *, stops_meanwhile: bool
) -> None:
    first, own, late = make_rank(0, stop=1), make_rank(1, stop=1), make_rank(2, stop=1)
    link = ScriptedLink()
    monkeypatch.setattr(listing_module, "TYPED_SECONDS", NEVER_TYPED)

    async def attach() -> None:
        async with threads(link, [first, own]) as (listing, shown, _):
            listing.table.begin_move(own.key, is_step=True)
            if stops_meanwhile:
                link.events.put_nowait(Change(rank=late))
                await shown.until(lambda: len(shown.named("stopped")) == 3)
            listing.table.end_move(own.key)
            link.events.put_nowait(stepped(own))
            await shown.until(lambda: shown.named("stopped")[-1]["reason"] == "step")
            with pytest.raises(BadInput, match="stays") if stops_meanwhile else nullcontext():
                listing.require_typed(own)

    asyncio.run(attach())


def test_a_rank_that_stood_at_the_attach_goes_on_once_the_ide_has_looked_at_it() -> None:
    other = make_rank(1, stop=1)
    link = ScriptedLink([answered(other, Kind.VALUE, "continued")])

    async def attach(monkeypatch: pytest.MonkeyPatch) -> None:
        async with threads(link, [STOPPED, other]) as (listing, _, window):
            moves = Moves(window, listing, Keyboard(window))
            loop = asyncio.get_running_loop()
            now = loop.time()
            monkeypatch.setattr(loop, "time", lambda: now + 1)
            # However slow the IDE is.
            with pytest.raises(BadInput, match="stays"):
                listing.require_typed(other)
            listing.begin()
            with pytest.raises(BadInput, match="stays"):
                listing.require_typed(other)
            listing.begin()
            listing.seen(other)
            await moves.go_on({"threadId": listing.table.thread(other.key)})
            await asyncio.gather(*moves._open)

    with pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(attach(monkeypatch))
    assert [asked.action for asked in link.sent] == [Action.CONTINUE]


def test_a_held_rank_takes_no_step() -> None:
    async def step() -> None:
        async with threads(ScriptedLink(), [HELD]) as (listing, _, window):
            with pytest.raises(BadInput):
                await Moves(window, listing, Keyboard(window)).step("next", {"threadId": 2})

    asyncio.run(step())


def test_a_watchers_token_moves_nothing_and_the_broker_says_so() -> None:
    link = ScriptedLink([Refusal(code=RefusalCode.ROLE, text="a watcher looks", request=0)])
    link.welcome = Welcome(minor=0, release="1", host="h", pid=1, uptime=0.0, role="watcher")

    async def step() -> None:
        async with threads(link, [STOPPED]) as (listing, _, window):
            with pytest.raises(Declined, match="a watcher looks"):
                await Moves(window, listing, Keyboard(window)).step("next", {"threadId": 2})
            assert listing.table.stands(STOPPED.key)

    asyncio.run(step())


def test_nobody_moves_a_rank_at_which_another_one_types() -> None:
    driven = make_rank(0, stop=1, driver="ann@login1")

    async def step() -> None:
        async with threads(ScriptedLink(), [driven]) as (listing, _, window):
            moves = Moves(window, listing, Keyboard(window))
            for move in (moves.step("next", {"threadId": 2}), moves.go_on({"threadId": 2})):
                with pytest.raises(BadInput, match="ann@login1 types at gpu013:0; write `take`"):
                    await move
            assert listing.table.stands(driven.key)

    asyncio.run(step())


@pytest.mark.parametrize(
    ("kind", "console"),
    [(Kind.RUNNING, ["gpu013:4: in C code\n"]), (Kind.ERROR, None), (Kind.LOST, None)],
    ids=lambda one: one.value if isinstance(one, Kind) else "",
)
def test_a_rank_that_can_not_stop_now_says_so_in_the_console_and_one_that_fails_in_the_answer(
    kind: Kind, console: list[str] | None
) -> None:
    running = make_rank(4, state=RankState.RUNNING, reason=None)
    link = ScriptedLink([answered(running, kind, "in C code")])

    async def pause() -> None:
        async with threads(link, [running]) as (listing, shown, window):
            keyboard = Keyboard(window)
            with nullcontext() if console is not None else pytest.raises(RankError, match="gpu013:4: in C code"):
                await Moves(window, listing, keyboard).pause({"threadId": listing.table.thread(running.key)})
            assert [said["output"] for said in shown.named("output")] == (console or [])
            keyboard.close()

    asyncio.run(pause())
    assert [asked.action for asked in link.sent] == [Action.INTERRUPT]
