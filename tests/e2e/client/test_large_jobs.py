"""Jobs of any state and size have a verdict, a report and a tree."""

from __future__ import annotations

import random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dbg_client.after.case_file import MAX_EVIDENCE, read_report
from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.sentences import fits, sentence_of
from dbg_client.why.show import show_verdicts
from dbg_client.why.verdict import Certainty, VerdictKind, exit_status
from dbg_wire.records.evidence import Activity, ActivityInfo, Evidence, ProcessSeen, ThreadWait
from dbg_wire.records.ranks import Place
from tests.support.rank_evidence import LOADING, REDUCING, TORCH, call, done, elsewhere, group, waiting
from tests.unit.client.after.test_files import case_of, saved, written
from tests.unit.client.views.test_tree import seen, stack, tree
from tests.unit.client.why.test_explain import ranks, twice


def test_ranks_that_recurse_to_different_depths_make_a_deep_tree() -> None:
    (here,) = stack("f t.py:1")
    answers = seen(*((here,) * depth for depth in range(1, 1100)))

    assert len(tree(answers)) > 1099


def jobs() -> st.SearchStrategy[tuple[RankEvidence, ...]]:
    return st.tuples(*(ranks(number) for number in range(4)))


@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(jobs(), jobs(), st.randoms(use_true_random=False))
def test_any_evidence_has_a_verdict_that_does_not_depend_on_the_order_of_ranks(
    before: tuple[RankEvidence, ...], now: tuple[RankEvidence, ...], chance: random.Random
) -> None:
    found = twice(before, now)
    shuffled = list(now)
    chance.shuffle(shuffled)

    assert twice(before, shuffled).verdicts == found.verdicts
    assert found.verdicts
    for kind in VerdictKind:
        named = [number for one in found.verdicts if one.kind is kind for number in one.ranks]
        if kind in (VerdictKind.MISSING, VerdictKind.DEAD, VerdictKind.SUSPENDED, VerdictKind.STUCK):
            assert len(named) == len(set(named))
    assert all(fits("4711.0", sentence_of(one)) for one in found.verdicts)
    for one in found.verdicts:
        assert one.certainty is not Certainty.LIKELY or "likely" in sentence_of(one), one
        assert (one.certainty is None) == (one.kind is VerdictKind.UNKNOWN), one
    text = show_verdicts(found.verdicts, color=False)
    assert "\x1b" not in text
    assert text
    assert all(len(line) < 1200 for line in text.split("\n"))
    assert exit_status(found.verdicts) in (0, 1, 6)


def thousand(*, differ: bool) -> list[RankEvidence]:
    """Return a thousand ranks that wait for one; with ``differ`` no two of them report the same evidence."""
    found = []
    for number in range(1000):
        own = f"_{number}" if differ else ""
        threads = [
            ThreadWait(
                thread=f"thread{own}_{at}",
                does=ActivityInfo(what=Activity.LOCK, name=f"lock{own}"),
                frames=tuple(Place(file=f"/home/me/module{own}.py", line=line, function="f") for line in range(20)),
            )
            for at in range(8)
        ]
        one = waiting(number, world_size=1000) if number != 77 else elsewhere(number, world_size=1000)
        frames = tuple(place.replace(file=f"{place.file}{own}") for place in (*LOADING, *REDUCING))
        evidence = Evidence(
            sources=(TORCH,),
            groups=tuple(group(str(n), f"0-{999 - n}", title=f"g{n}", at=4) for n in range(4)),
            collectives=tuple(
                (call(5, group=str(n), age=60 + number / 777) if number != 77 else done(4, group=str(n)))
                for n in range(4)
            ),
            waits=tuple(threads),
            process=ProcessSeen(state="S", main_cpu=number / 7, input=number * 1000),
        )
        answer = one.answer.replace(frames=frames, age=60 + number / 777)
        found.append(RankEvidence(rank=one.rank, answer=answer, evidence=evidence))
    return found


@pytest.mark.parametrize("differ", [False, True])
def test_a_thousand_ranks_fit_and_give_the_same_verdict(differ: bool) -> None:
    everybody = thousand(differ=differ)
    case = case_of(everybody, everybody)
    data = written(saved(case))

    assert len(data) < 2 * MAX_EVIDENCE
    found = read_report(data).case.explanation()
    assert [sentence_of(verdict) for verdict in found.verdicts] == [
        sentence_of(verdict) for verdict in case.explanation().verdicts
    ]
    assert found.verdicts[0].ranks == (77,)
