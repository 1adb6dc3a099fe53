from __future__ import annotations

import asyncio

import pytest

from dbg_client.core.asking import PAGE, Asker
from dbg_client.core.errors import Declined, TimedOut
from dbg_client.core.link import Down
from dbg_client.core.patience import WaitingLine
from dbg_wire.messages import (
    Action,
    Answers,
    Change,
    Kind,
    Progress,
    RankAnswer,
    Refusal,
    RefusalCode,
    Snapshot,
)
from dbg_wire.records.inspection import ScreenSize
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink, switchboard_on


def answers(request: int, *ranks: RankInfo, last: bool = True) -> Answers:
    said = tuple(RankAnswer(key=rank.key, kind=Kind.VALUE, text=rank.address) for rank in ranks)
    return Answers(request=request, answers=said, last=last)


async def ask(link: ScriptedLink, *ranks: RankInfo) -> list[RankAnswer]:
    async with switchboard_on(link) as switchboard:
        return await Asker(switchboard).ask(Action.EVAL, ranks, "loss")


async def test_answers_come_in_the_order_of_the_ranks_and_a_rank_left_out_counts_as_silent() -> None:
    one, two, three = map(make_rank, range(3))
    link = ScriptedLink([answers(0, three, last=False), answers(0, one)])

    said = await ask(link, one, two, three)

    assert [answer.key for answer in said] == [one.key, two.key, three.key]
    assert [answer.kind for answer in said] == [Kind.VALUE, Kind.SILENT, Kind.VALUE]


@pytest.mark.parametrize(("live", "count"), [(False, 2), (True, 3)])
async def test_ranks_that_cannot_answer_do_not_count_as_asked(live: bool, count: int) -> None:
    states = (RankState.STOPPED, RankState.HELD, RankState.RUNNING, RankState.UNRESPONSIVE, RankState.LOST)
    ranks = [make_rank(number, state=state) for number, state in enumerate(states)]
    link = ScriptedLink([answers(0, *ranks)])
    async with switchboard_on(link) as switchboard:
        await Asker(switchboard).ask(Action.EVAL, ranks, "x.full_tensor()", live=live)
    assert [question.asked for question in link.sent] == [count]


async def test_a_question_to_many_ranks_goes_out_in_pages() -> None:
    ranks = [make_rank(number) for number in range(PAGE + 1)]
    link = ScriptedLink([], [answers(1, ranks[-1]), answers(0, *ranks[:-1])])

    said = await ask(link, *ranks)

    assert [len(question.keys) for question in link.sent] == [PAGE, 1]
    assert {answer.kind for answer in said} == {Kind.VALUE}


async def test_answers_to_a_question_of_before_are_nobodys() -> None:
    rank = make_rank()
    link = ScriptedLink([answers(0, rank)], [answers(0, make_rank(6)), answers(1, rank)])
    async with switchboard_on(link) as switchboard:
        asker = Asker(switchboard)

        await asker.ask(Action.EVAL, [rank], "loss")
        (again,) = await asker.ask(Action.EVAL, [rank], "loss")

        assert again.text == rank.address


async def test_news_of_ranks_meanwhile_go_into_the_directory() -> None:
    rank, other = make_rank(), make_rank(6)
    link = ScriptedLink([Snapshot(ranks=(rank,), last=True), Change(rank=other), answers(0, rank)])
    async with switchboard_on(link) as switchboard:
        await Asker(switchboard).ask(Action.EVAL, [rank], "loss")

        assert switchboard.directory.ranks == (rank, other)


async def test_a_rank_draws_for_the_size_that_the_face_tells_at_each_question() -> None:
    rank = make_rank()
    sizes = iter([(50, 132), (20, 70)])
    link = ScriptedLink([answers(0, rank)], [answers(1, rank)])
    async with switchboard_on(link) as switchboard:
        asker = Asker(switchboard, size=lambda: next(sizes))

        await asker.ask(Action.SCREEN, [rank])
        await asker.ask(Action.SCREEN, [rank])

    assert [question.inquiry for question in link.sent] == [
        ScreenSize(rows=50, columns=132),
        ScreenSize(rows=20, columns=70),
    ]


async def test_who_has_not_answered_is_said_after_a_moment_and_no_longer_when_all_have(
    approved: Approved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dbg_client.core.patience.PATIENCE_SECONDS", 0.01)
    one, two = make_rank(5), make_rank(77)
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    link = ScriptedLink()
    async with switchboard_on(link) as switchboard:
        asker = Asker(switchboard, 60.0, line=WaitingLine(lines.put_nowait))
        asking = asyncio.ensure_future(asker.ask(Action.EVAL, [one, two], "loss"))
        approved(await lines.get())
        link.events.put_nowait(Progress(request=0, asked=2, answered=1, waiting=(two.key,)))
        while (line := await lines.get()) != "1 of 2 answered, waiting for 77 (0 s)":
            assert line is not None
        link.events.put_nowait(answers(0, one, two))
        assert len(await asking) == 2
    shown = None
    while not lines.empty():
        shown = lines.get_nowait()
    assert shown is None


async def test_a_broker_that_refuses_or_goes_away_is_an_error(approved: Approved) -> None:
    rank = make_rank()
    with pytest.raises(Declined, match="the broker refused: no"):
        await ask(ScriptedLink([Refusal(code=RefusalCode.ROLE, text="no", request=0)]), rank)
    with pytest.raises(TimedOut) as caught:
        await ask(ScriptedLink([Down("it shut down")]), rank)
    approved(str(caught.value))
    with pytest.raises(TimedOut) as caught:
        await ask(ScriptedLink(up=False), rank)
    approved(str(caught.value), "2")


async def test_a_silent_broker_is_given_up_some_seconds_after_the_deadline(
    approved: Approved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbg_client.core.asking.GRACE_SECONDS", 0.05)
    with pytest.raises(TimedOut) as caught:
        async with switchboard_on(ScriptedLink()) as switchboard:
            await Asker(switchboard, 0.01).ask(Action.EVAL, [make_rank()], "loss")
    approved(str(caught.value))
