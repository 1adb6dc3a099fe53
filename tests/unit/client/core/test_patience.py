from __future__ import annotations

import asyncio

import pytest

from dbg_client.core import patience
from dbg_client.core.patience import OpenAnswers, WaitingLine, count_states
from dbg_wire.messages import Progress
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank


def progress(request: int, answered: int, *waiting: RankInfo) -> Progress:
    keys = tuple(rank.key for rank in waiting)
    return Progress(request=request, asked=answered + len(waiting), answered=answered, waiting=keys)


async def test_what_takes_no_second_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str | None] = []
    async with WaitingLine(shown.append).says(lambda: "nothing"):
        await asyncio.sleep(0)
    assert shown == [None]


async def test_the_line_follows_what_is_so_and_goes_away_also_when_the_wait_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.01)
    shown: asyncio.Queue[str | None] = asyncio.Queue()
    said = ["first"]

    async def wait_in_vain() -> None:
        async with WaitingLine(shown.put_nowait).says(lambda: said[-1]):
            assert await shown.get() == "first (0 s)"
            said.append("second")
            while await shown.get() != "second (0 s)":
                pass
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await wait_in_vain()
    last = None
    while not shown.empty():
        last = shown.get_nowait()
    assert last is None


def test_of_one_rank_the_address_is_named() -> None:
    assert str(OpenAnswers([make_rank(5)], {0: 1})) == "waiting for gpu013:5"


def test_who_is_waited_for_is_named_by_number_over_all_pages(approved: Approved) -> None:
    ranks = [make_rank(number) for number in range(6)]
    answers = OpenAnswers(ranks, {3: 4, 4: 2})
    approved(str(answers))
    answers.progress(progress(3, 2, ranks[1], ranks[2]))
    approved(str(answers), "2")
    answers.progress(progress(4, 1, ranks[5]))
    answers.progress(progress(9, 0, ranks[0]))
    assert str(answers) == "3 of 6 answered, waiting for 1-2, 5"
    answers.ended(4)
    assert str(answers) == "4 of 6 answered, waiting for 1-2"


def test_names_that_are_too_many_are_cut_and_counted() -> None:
    ranks = [make_rank(number) for number in range(0, 2000, 7)]
    answers = OpenAnswers(ranks, {0: len(ranks)})
    answers.progress(Progress(request=0, asked=286, answered=0, waiting=tuple(rank.key for rank in ranks[:64:3])))
    assert len(str(answers)) < 90
    assert "… (286 ranks)" in str(answers)


def test_ranks_that_share_a_number_are_named_by_address() -> None:
    ranks = [make_rank(5), make_rank(5, address="gpu014:5", host="gpu014", key="other")]
    answers = OpenAnswers([*ranks, make_rank(6)], {0: 3})
    answers.progress(progress(0, 1, *ranks))
    assert str(answers) == "1 of 3 answered, waiting for gpu013:5, gpu014:5"


def test_states_are_counted() -> None:
    running = [make_rank(number, state=RankState.RUNNING) for number in range(3)]
    assert count_states(running[:1]) == "running"
    assert count_states([make_rank(9, state=RankState.LOST), *running]) == "3 running, 1 lost"
    assert count_states([]) == ""
