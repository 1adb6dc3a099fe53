from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_client.core.process_groups import RankEvidence
from dbg_client.hang.fitting import fits
from dbg_client.hang.show import show_verdicts
from dbg_client.hang.verdict import Certainty, VerdictKind, exit_status
from tests.unit.client.hang.test_explain import ranks, twice


def jobs() -> st.SearchStrategy[tuple[RankEvidence, ...]]:
    return st.tuples(*(ranks(number) for number in range(4)))


@settings(max_examples=60, deadline=None)
@given(jobs(), jobs(), st.randoms(use_true_random=False))
def test_whatever_ranks_tell_there_is_a_verdict_that_does_not_depend_on_their_order(
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
    assert all(fits("4711.0", one.sentence) for one in found.verdicts)
    for one in found.verdicts:
        assert one.certainty is not Certainty.LIKELY or "likely" in one.sentence, one
        assert (one.certainty is None) == (one.kind is VerdictKind.UNKNOWN), one
    text = show_verdicts(found.verdicts, color=False)
    assert "\x1b" not in text
    assert text
    assert all(len(line) < 1200 for line in text.split("\n"))
    assert exit_status(found.verdicts) in (0, 1, 6)
