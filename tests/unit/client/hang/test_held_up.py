"""A rank that waits elsewhere is told to be missing from a collective at once, though the others have just come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbg_client.core.process_groups import RankEvidence
from dbg_client.hang.explain import JobLook, explain
from dbg_client.hang.verdict import Certainty, VerdictKind
from dbg_wire.records.evidence import ThreadWait, WaitKind
from tests.conftest import Approved
from tests.support.rank_evidence import call, done, elsewhere, group, told, waiting
from tests.support.rank_infos import changed


def new_call(number: int) -> RankEvidence:
    """Return a rank that has called the fifth collective a second ago."""
    return told(number, groups=[group(at=4)], calls=[call(5, age=1.0), done(4)], age=1.0)


def reading(seconds: float) -> RankEvidence:
    """Return rank 3, which reads a socket since so many seconds."""
    one = elsewhere(3, age=seconds)
    wait = ThreadWait(thread="MainThread", kind=WaitKind.SOCKET, text="reads a socket", is_main=True)
    assert one.evidence is not None
    return replace(one, evidence=replace(one.evidence, waits=(wait,)))


@pytest.mark.parametrize(("seconds", "kinds"), [(9.0, {"missing"}), (1.0, set())])
def test_a_new_collective_is_judged_by_the_wait_of_who_has_not_come(seconds: float, kinds: set[str]) -> None:
    told_now = explain([JobLook(at=0.0, everybody=[*map(new_call, (0, 1, 2)), reading(seconds)])], 0.0).verdicts

    assert {one.kind.value for one in told_now if one.kind not in (VerdictKind.BUSY, VerdictKind.UNKNOWN)} == kinds
    assert not kinds or told_now[0].kind is VerdictKind.MISSING


def polling(number: int, path: str, holder: int | None) -> RankEvidence:
    """Return a rank that waits for the lock of a file which a process holds."""
    one = elsewhere(number)
    text = f"waits for the lock of the file {path}, which the process {holder} holds"
    wait = ThreadWait(thread="MainThread", kind=WaitKind.FILE, text=text, is_main=True, holder=holder, is_sure=True)
    assert one.evidence is not None
    return replace(one, evidence=replace(one.evidence, waits=(wait,)))


def pid(number: int) -> int:
    return waiting(number).rank.pid


WAIT = "ranks 2-3 wait for what others have:"

IN_IT = "waits for them in all_reduce #5 of dp_0 since 1 min: a deadlock"
"""How sentences on such a circle end."""


@pytest.mark.parametrize(
    ("paths", "holders", "sentence"),
    [
        ("aa", (0, 0), f"each of ranks 2-3 waits for the lock of the file a, which rank 0 holds; rank 0 {IN_IT}"),
        (
            "ab",
            (0, 0),
            f"{WAIT} rank 2 waits for the lock of the file a, which rank 0 holds; rank 3 waits for…; rank 0 {IN_IT}",
        ),
        (
            "ab",
            (3, 1),
            f"{WAIT} rank 2 waits for the lock of the file a, which rank 3 holds; rank 3 waits for…; rank 1 {IN_IT}",
        ),
    ],
)
def test_ranks_that_want_what_a_rank_in_the_collective_has_wait_in_a_circle_with_it(
    paths: str, holders: tuple[int, int], sentence: str
) -> None:
    late = [polling(number, path, pid(held)) for number, path, held in zip((2, 3), paths, holders, strict=True)]

    found = explain([JobLook(at=0.0, everybody=[waiting(0), waiting(1), *late])] * 2, 0.0)

    (verdict,) = found.verdicts
    assert (verdict.kind, verdict.ranks, verdict.others) == ("deadlock", (2, 3), (0, 1))
    assert (verdict.sentence, verdict.certainty) == (sentence, Certainty.SURE)
    assert [rank.rank for rank in found.missing] == [2, 3]


@pytest.mark.parametrize("holder", [None, 2**22 + 1])
def test_what_no_rank_is_known_to_hold_makes_no_circle(approved: Approved, holder: int | None) -> None:
    late = [polling(number, "a", holder) for number in (2, 3)]

    told_now = explain([JobLook(at=0.0, everybody=[waiting(0), waiting(1), *late])] * 2, 0.0).verdicts[0]

    assert told_now.kind is VerdictKind.MISSING
    approved(told_now.sentence)


def test_a_holder_on_another_host_is_no_rank_of_this_one() -> None:
    late = polling(2, "a", pid(0))
    late = replace(late, rank=changed(late.rank, host="gpu099"))

    told_now = explain([JobLook(at=0.0, everybody=[*map(waiting, (0, 1, 3)), late])] * 2, 0.0).verdicts[0]

    assert told_now.kind is VerdictKind.MISSING


@pytest.mark.parametrize("seconds", [1.0, 5.0])
def test_ranks_that_hold_what_the_next_one_wants_are_in_a_circle_without_a_collective(
    approved: Approved, seconds: float
) -> None:
    wanted = {0: 1, 1: 2, 2: 0, 3: 0}
    polls = [polling(number, f"lock{held}", pid(held)) for number, held in wanted.items()]
    job = [replace(one, answer=one.answer.replace(age=0.05)) for one in polls]

    found = explain([JobLook(at=0.0, everybody=job), JobLook(at=seconds, everybody=job)], 0.0)

    if seconds < 5.0:
        assert [one.kind for one in found.verdicts] == [VerdictKind.UNKNOWN]
        return
    (circle,) = found.verdicts
    assert (circle.kind, circle.ranks, circle.others) == (VerdictKind.DEADLOCK, (0, 1, 2), (3,))
    assert found.missing == ()
    approved(circle.sentence)
