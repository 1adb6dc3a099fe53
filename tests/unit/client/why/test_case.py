"""The verdicts of a case, and its further lines."""

from __future__ import annotations

from dbg_client.why.explain import Case, JobLook, explain
from dbg_client.why.verdict import VerdictKind
from tests.support.rank_evidence import elsewhere, waiting

RUN = ("4711.0", "0.0")
LOOK = JobLook(at=0.0, everybody=[waiting(0), elsewhere(1), waiting(2), waiting(3)])


def test_its_verdicts_are_those_of_its_looks() -> None:
    assert Case(looks=[LOOK], now=100.0).explanation() == explain([LOOK], 100.0)


def test_further_lines_stand_below_the_worst_verdict_on_their_run() -> None:
    lines = [(RUN, ["lost: rank 1"]), (("another", "0"), ["not here"])]
    worst, *_ = Case(looks=[LOOK], now=100.0, lines=lines).explanation().verdicts
    assert worst.kind is VerdictKind.MISSING
    assert worst.evidence[-1] == "lost: rank 1"
    assert "not here" not in worst.evidence
