"""The work of a question grows with the number of ranks and not faster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import pytest

from dbg_client.core.asking import Asker
from dbg_client.core.choose import find_missing_ranks
from dbg_client.core.wait_progress import show_nobody
from dbg_client.terminal.picker import PickList
from dbg_client.verbs.values import Eval
from dbg_client.verbs.verb import Asking
from dbg_client.verbs.where import Where
from dbg_client.views.list import list_document, show_table
from dbg_client.why import questions as cause
from dbg_client.why.explain import JobSnapshot, explain
from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.questions import find_case
from dbg_client.why.show import show_verdicts, verdicts_document
from dbg_wire.messages import Action, RankAnswer
from dbg_wire.records.ranks import Place, RankInfo
from tests.support.calls import calls_of
from tests.support.rank_evidence import LOADING, MAIN, REDUCING, call, done, group, rank_with
from tests.unit.client.shell.desk import answer_of

FEW = 500
NOW = 1760000100.0


class CannedAsker:
    """An asker whose ranks have answered."""

    seconds = 5.0
    asked = 0

    def __init__(self, answers: Sequence[RankAnswer]) -> None:
        self._answers = {answer.key: answer for answer in answers}

    async def ask(
        self, _action: Action, ranks: Sequence[RankInfo], *_words: str, **_options: object
    ) -> list[RankAnswer]:
        self.asked += 1
        return [self._answers[rank.key] for rank in ranks]


def recorded(count: int) -> list[RankEvidence]:
    """All but one wait in a recorded collective."""
    return [
        rank_with(
            number,
            groups=[group(members=f"0-{count - 1}", at=4)],
            calls=[call(5), done(4)] if number != 3 else [done(4)],
            frames=REDUCING if number != 3 else LOADING,
            age=60.0,
            world_size=count,
            host=f"gpu{number // 8:03}",
            address=f"gpu{number // 8:03}:{number}",
        )
        for number in range(count)
    ]


def without_calls(count: int, answers: Callable[[int, RankAnswer], RankAnswer]) -> list[RankEvidence]:
    """No library has recorded a collective."""
    return [
        replace(
            one, evidence=replace(one.evidence, groups=(), collectives=()), answer=answers(one.rank.rank, one.answer)
        )
        for one in recorded(count)
        if one.evidence is not None
    ]


def at_a_few_places(rank: int, answer: RankAnswer) -> RankAnswer:
    return answer.replace(frames=LOADING if rank % 10 == 3 else REDUCING)


def everywhere(rank: int, answer: RankAnswer) -> RankAnswer:
    """Each rank is at a line and has a value of its own."""
    own = Place(file="/home/me/m.py", line=rank + 1, function="f")
    return answer.replace(text=f"value {rank}", frames=(MAIN, own))


def standing(rank: int, answer: RankAnswer) -> RankAnswer:
    """No rank is in a collective."""
    return answer.replace(frames=LOADING)


def asking(job: Sequence[RankEvidence]) -> Asking:
    ranks = [one.rank for one in job]
    return Asking(
        asker=cast(Asker, CannedAsker([answer_of(one) for one in job])), ranks=ranks, known=ranks, show=show_nobody
    )


def where(job: Sequence[RankEvidence]) -> None:
    found = asyncio.run(Where().ask(asking(job)))
    found.text()
    found.document()


def why(job: Sequence[RankEvidence]) -> None:
    found = explain([JobSnapshot(at=0.0, everybody=job), JobSnapshot(at=6.0, everybody=job)], NOW)
    show_verdicts(found.verdicts, color=False)
    verdicts_document(found)


def values(job: Sequence[RankEvidence]) -> None:
    asyncio.run(Eval(expression="loss").ask(asking(job))).text()


def listed(job: Sequence[RankEvidence]) -> None:
    ranks = [one.rank for one in job]
    find_missing_ranks(ranks)
    show_table(ranks, NOW, color=False, fold=True)
    show_table(ranks, NOW, color=False)
    list_document(ranks)
    picks = PickList()
    picks.update(ranks)
    picks.show(40, NOW)


def asked_why(job: Sequence[RankEvidence]) -> None:
    """The looks, without the verdicts, which are made in another thread."""
    ranks = [one.rank for one in job]
    asker = CannedAsker([answer_of(one) for one in job])
    asyncio.run(find_case(cast(Asker, asker), ranks, ranks))
    # What has stood for a minute is no news after another look.
    assert asker.asked <= 2


VERBS = {"where": where, "why": why, "why, asked": asked_why, "eval": values, "list": listed}
JOBS: dict[str, Callable[[int], list[RankEvidence]]] = {
    "recorded": recorded,
    "unrecorded": lambda count: without_calls(count, at_a_few_places),
    "standing": lambda count: without_calls(count, standing),
    "everywhere": lambda count: without_calls(count, everywhere),
}


CASES = [(verb, job) for verb in VERBS for job in JOBS if verb != "list" or job == "everywhere"]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cause, "BETWEEN_SECONDS", 0.0)


@pytest.mark.parametrize(("verb", "job"), CASES)
def test_work_grows_linearly_with_the_ranks(verb: str, job: str) -> None:
    few, many = (JOBS[job](count) for count in (FEW, 2 * FEW))

    assert calls_of(lambda: VERBS[verb](many)) < 2.2 * calls_of(lambda: VERBS[verb](few))
