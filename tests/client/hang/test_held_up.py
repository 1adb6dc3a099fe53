"""A rank that waits elsewhere is told to be missing from a collective at once, though the others have just come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbg_client.core.rank_evidence import RankEvidence
from dbg_client.hang.explain import JobLook, explain
from dbg_client.hang.verdict import VerdictKind
from dbg_wire.evidence import ThreadWait, WaitKind
from tests.support.rank_evidence import call, done, elsewhere, group, told


def new_call(number: int) -> RankEvidence:
    """Return a rank that has called the fifth collective a second ago."""
    return told(number, groups=[group(at=4)], calls=[call(5, age=1.0), done(4)], age=1.0)


def reading(seconds: float) -> RankEvidence:
    """Return rank 3, which reads a socket since so many seconds."""
    one = elsewhere(3, age=seconds)
    wait = ThreadWait(thread="MainThread", kind=WaitKind.SOCKET, text="reads a socket", is_main=True)
    assert one.evidence is not None
    return replace(one, evidence=replace(one.evidence, waits=(wait,)))


@pytest.mark.parametrize(("seconds", "kinds"), [(9.0, {"missing", "waiting"}), (1.0, set())])
def test_a_new_collective_is_judged_by_the_wait_of_who_has_not_come(seconds: float, kinds: set[str]) -> None:
    told_now = explain([JobLook(at=0.0, everybody=[*map(new_call, (0, 1, 2)), reading(seconds)])], 0.0).verdicts

    assert {one.kind.value for one in told_now if one.kind not in (VerdictKind.BUSY, VerdictKind.UNKNOWN)} == kinds
    assert not kinds or told_now[0].kind is VerdictKind.MISSING
