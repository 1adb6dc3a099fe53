"""A pipeline in which a rank leaves out a send, and goes on to a collective of all."""

from __future__ import annotations

from dbg_client.hang.explain import JobLook, explain
from dbg_client.hang.verdict import VerdictKind
from tests.conftest import Approved
from tests.support.rank_evidence import call, group, told


def test_the_rank_that_does_not_send_is_the_cause_not_the_barrier(approved: Approved) -> None:
    barrier = [told(n, groups=[group()], calls=[call(1, "barrier")], age=60.0) for n in (0, 1)]
    receiving = [
        told(n, groups=[group()], calls=[call(None, "recv", peer=n - 1, is_receive=True, age=10.0 * n)], age=60.0)
        for n in (2, 3)
    ]

    (verdict,) = explain([JobLook(at=0.0, everybody=[*barrier, *receiving])], 0.0).verdicts

    assert (verdict.kind, verdict.ranks, verdict.others) == (VerdictKind.PARTNER, (1,), (2,))
    approved(verdict.sentence)
    assert any("ranks 0-1,3 wait behind them in" in line for line in verdict.evidence), verdict.evidence
