"""The broker is told the worst verdict on each job; one that names no culprit only where all ranks stand."""

from __future__ import annotations

from dbg_client.actions.why import tell_of_hang
from dbg_client.hang.verdict import Verdict, VerdictKind
from dbg_wire.messages import Hang, Message
from dbg_wire.records.ranks import RankState
from tests.unit.client.fake_broker import make_rank


def verdict(kind: VerdictKind, job: str = "a", **fields: object) -> Verdict:
    return Verdict(**{"kind": kind, "job": job, "sentence": f"it is {kind.value}", **fields})  # type: ignore[arg-type]


def test_the_worst_verdict_on_each_job_is_sent() -> None:
    sent: list[Message] = []
    verdicts = [
        verdict(VerdictKind.MISSING, ranks=(3, 4, 5), sentence="rank\x1b is missing"),
        verdict(VerdictKind.DEAD),
        verdict(VerdictKind.STUCK, job="b"),
        verdict(VerdictKind.BUSY, job="c"),
        verdict(VerdictKind.UNKNOWN, job="d"),
    ]
    tell_of_hang(sent.append, verdicts)
    assert sent == [
        Hang(job="a", kind="missing", sentence="rank\\x1b is missing", ranks="3-5"),
        Hang(job="b", kind="stuck", sentence="it is stuck"),
    ]


def test_ranks_that_somebody_has_stopped_are_no_hang() -> None:
    sent: list[Message] = []
    known = [make_rank(3, job="a"), make_rank(4, job="a", state=RankState.RUNNING)]
    tell_of_hang(sent.append, [verdict(VerdictKind.WAITING, ranks=(3,))], known)
    assert sent == []
    tell_of_hang(sent.append, [verdict(VerdictKind.WAITING, ranks=(3, 4))], known)
    assert len(sent) == 1


def test_a_hang_without_a_known_cause_is_sent_if_no_rank_moves() -> None:
    sent: list[Message] = []
    tell_of_hang(
        sent.append,
        [verdict(VerdictKind.UNKNOWN, job="d"), verdict(VerdictKind.BUSY, job="c")],
        stands=True,
    )
    assert sent == [Hang(job="d", kind="unknown", sentence="it is unknown")]
