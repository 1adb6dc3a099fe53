"""Ranks that pass different data to one collective, of which the library has let some finish."""

from __future__ import annotations

from dbg_client.hang.explain import JobLook, explain
from dbg_client.hang.verdict import VerdictKind
from tests.conftest import Approved
from tests.support.rank_evidence import call, done, group, told, waiting


def test_a_larger_tensor_in_one_rank_is_found_though_the_others_have_gone_on(approved: Approved) -> None:
    waits = [
        told(n, groups=[group(at=4)], calls=[call(5), done(4, shapes="[1024]", size=4096)], age=60.0) for n in (0, 1, 3)
    ]
    larger = told(2, groups=[group(at=3)], calls=[call(4, shapes="[2048]", size=8192)], age=60.0)

    (verdict,) = explain([JobLook(at=0.0, everybody=[*waits, larger])], 0.0).verdicts

    assert (verdict.kind, verdict.ranks, verdict.others) == (VerdictKind.MISMATCH, (2,), (0, 1, 3))
    assert (verdict.collective, verdict.sequence) == ("all_reduce", 4)
    assert verdict.sentence.startswith("rank 2 (gpu013) passed float32, 8 KiB [2048] to all_reduce #4 of dp_0, where")
    approved(verdict.evidence)


def test_equal_data_is_no_conflict_with_those_that_have_finished() -> None:
    slow = told(2, groups=[group(at=3)], calls=[call(4)], age=60.0)

    kinds = {
        verdict.kind for verdict in explain([JobLook(at=0.0, everybody=[*map(waiting, (0, 1, 3)), slow])], 0.0).verdicts
    }

    assert VerdictKind.MISMATCH not in kinds
