"""The work of a question grows with the number of ranks and not faster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from dbg_client.core.asking import Asker
from dbg_client.core.process_groups import RankEvidence
from dbg_client.core.roll_call import call_roll
from dbg_client.hang.explain import JobLook, explain
from dbg_client.hang.show import show_verdicts, verdicts_document
from dbg_client.questions.answers import ask_stacks, ask_values
from dbg_client.views.groups import show_groups
from dbg_client.views.list import list_document, show_plain, show_table
from dbg_client.views.pick_list import make_rows
from dbg_wire.messages import Action, RankAnswer
from dbg_wire.records.evidence import EvidenceRecord
from dbg_wire.records.ranks import Place, RankInfo
from tests.support.calls import calls_of
from tests.support.rank_evidence import LOADING, MAIN, REDUCING, call, done, group, told

FEW = 100
NOW = 1760000100.0


class CannedAsker:
    """An asker whose ranks have answered."""

    seconds = 5.0

    def __init__(self, answers: Sequence[RankAnswer]) -> None:
        self._answers = {answer.key: answer for answer in answers}

    async def ask(
        self, _action: Action, ranks: Sequence[RankInfo], *_words: str, **_options: object
    ) -> list[RankAnswer]:
        return [self._answers[rank.key] for rank in ranks]


def recorded(count: int) -> list[RankEvidence]:
    """All but one wait in a recorded collective."""
    return [
        told(
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


def unrecorded(count: int) -> list[RankEvidence]:
    """No library has recorded a collective; ranks are at a few places."""
    return [
        replace(
            one,
            evidence=replace(one.evidence, groups=(), collectives=()),
            answer=one.answer.replace(frames=LOADING if index % 10 == 3 else REDUCING),
        )
        for index, one in enumerate(recorded(count))
        if one.evidence is not None
    ]


def everywhere(count: int) -> list[RankEvidence]:
    """Each rank is at a line and has a value of its own."""
    return [
        replace(
            one,
            answer=one.answer.replace(
                text=f"value {index}", frames=(MAIN, Place(file="/home/me/m.py", line=index + 1, function="f"))
            ),
            evidence=replace(one.evidence, groups=(), collectives=()),
        )
        for index, one in enumerate(recorded(count))
        if one.evidence is not None
    ]


def with_rows(one: RankEvidence) -> RankAnswer:
    seen = one.evidence
    assert seen is not None
    rows: list[EvidenceRecord] = [*seen.sources, *seen.groups, *seen.collectives]
    return one.answer.replace(rows=rows)


def asker_of(job: Sequence[RankEvidence]) -> Asker:
    return cast(Asker, CannedAsker([with_rows(one) for one in job]))


def where(job: Sequence[RankEvidence]) -> None:
    ranks = [one.rank for one in job]
    found = asyncio.run(ask_stacks(asker_of(job), ranks, known=ranks))
    found.shown()
    found.document()


def why(job: Sequence[RankEvidence]) -> None:
    found = explain([JobLook(at=0.0, everybody=job), JobLook(at=6.0, everybody=job)], NOW)
    show_verdicts(found.verdicts, color=False)
    verdicts_document(found)


def values(job: Sequence[RankEvidence]) -> None:
    ranks = [one.rank for one in job]
    found = asyncio.run(ask_values(asker_of(job), ranks, Action.EVAL, "loss", calls=call_roll(ranks)))
    show_groups("loss", found.groups, found.naming, color=False, missing=found.missing)


def listed(job: Sequence[RankEvidence]) -> None:
    ranks = [one.rank for one in job]
    call_roll(ranks)
    show_table(ranks, NOW, color=False, fold=True)
    show_table(ranks, NOW, color=False)
    show_plain(ranks, ranks)
    list_document(ranks)
    make_rows(ranks, 40, frozenset())


VERBS = {"where": where, "why": why, "eval": values, "list": listed}
JOBS = {"recorded": recorded, "unrecorded": unrecorded, "everywhere": everywhere}


CASES = [(verb, job) for verb in VERBS for job in JOBS if verb != "list" or job == "everywhere"]


@pytest.mark.parametrize(("verb", "job"), CASES)
def test_twice_the_ranks_are_twice_the_work(verb: str, job: str) -> None:
    few, many = (JOBS[job](count) for count in (FEW, 2 * FEW))

    assert calls_of(lambda: VERBS[verb](many)) < 2.2 * calls_of(lambda: VERBS[verb](few))
