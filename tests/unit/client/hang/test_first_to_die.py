"""A job that has ended: the rank that died by itself is told apart from those that the launcher ended after it."""

from __future__ import annotations

from dbg_client.core.process_groups import RankEvidence
from dbg_client.hang.explain import JobLook, explain
from dbg_client.hang.verdict import VerdictKind
from dbg_wire.messages import Kind
from dbg_wire.records.ranks import DIED, WITHOUT_TRACEBACK, RankState
from tests.support.rank_evidence import REDUCING, told


def ended(number: int, exit_status: int, since: float) -> RankEvidence:
    """Return a rank that has ended."""
    return told(number, kind=Kind.LOST, state=RankState.EXITED, exit=exit_status, since=since, frames=REDUCING)


def test_the_rank_that_was_killed_first_is_named_alone() -> None:
    others = [ended(0, -15, 101.0), ended(2, 1, 100.001), ended(3, -15, 101.0)]

    (verdict,) = explain([JobLook(at=0.0, everybody=[*others, ended(1, -9, 100.0)])], 103.0).verdicts

    assert (verdict.kind, verdict.ranks) == (VerdictKind.DEAD, (1,))
    assert verdict.sentence.endswith("was killed by SIGKILL 3 s ago")
    assert "after that:" in verdict.evidence


def test_ranks_that_died_at_once_are_named_together() -> None:
    everybody = [ended(number, -9, 100.0 + number / 100) for number in range(4)]

    (verdict,) = explain([JobLook(at=0.0, everybody=everybody)], 103.0).verdicts

    assert verdict.ranks == (0, 1, 2, 3)


def test_a_rank_that_ended_without_a_traceback_goes_before_those_that_failed_for_want_of_it() -> None:
    how = {"state": RankState.EXITED, "exit": 0, "reason": DIED, "detail": WITHOUT_TRACEBACK}
    left = told(1, kind=Kind.LOST, since=100.05, **how)  # type: ignore[arg-type] # as the record has them

    (verdict,) = explain([JobLook(at=0.0, everybody=[ended(0, 1, 100.0), left])], 103.0).verdicts[:1]

    assert verdict.ranks == (1,)
    assert verdict.sentence.endswith(f"ended by itself 2 s ago with status 0, {WITHOUT_TRACEBACK}")


def test_ranks_that_died_of_different_causes_are_told_with_them() -> None:
    everybody = [ended(number, exit_status, 100.0) for number, exit_status in enumerate((-9, -9, -6, -6))]

    (verdict,) = explain([JobLook(at=0.0, everybody=everybody)], 103.0).verdicts

    assert verdict.sentence == (
        "ranks 0-3 have died: each of ranks 0-1 was killed by SIGKILL 3 s ago; each of ranks 2-3 was killed by SIGABRT "
        "3 s ago"
    )


def test_ranks_that_a_launcher_ended_are_named_when_no_other_has_died() -> None:
    everybody = [ended(number, -15, 100.0 + number) for number in range(4)]

    (verdict,) = explain([JobLook(at=0.0, everybody=everybody)], 103.0).verdicts

    assert verdict.ranks == (0, 1, 2, 3)


def test_who_killed_a_rank_is_said_once_and_its_memory_behind_that() -> None:
    by = "SIGKILL from the kernel's out-of-memory killer (limit of its cgroup 1.8 GiB)"
    dead = told(
        0, kind=Kind.LOST, world_size=1, state=RankState.EXITED, exit=-9, since=100.0, detail=f"{by}; it held 1.1 GiB"
    )

    (verdict,) = explain([JobLook(at=0.0, everybody=[dead])], 103.0).verdicts

    assert verdict.sentence.endswith(f"was killed by {by} 3 s ago; it held 1.1 GiB")
