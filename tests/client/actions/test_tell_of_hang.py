"""The broker is told the worst verdict on each job; one that names no culprit only where all ranks stand."""

from __future__ import annotations

from dbg_client.actions.tell_of_hang import tell_of_hang
from dbg_client.core.asking import Asker
from dbg_client.core.directory import Directory
from dbg_client.core.link import Event
from dbg_client.hang.verdict import Verdict, VerdictKind
from dbg_wire.codec import Input
from dbg_wire.messages import Hang, Message


class Line:
    """A link that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Message | Input] = []

    def send(self, item: Message | Input) -> bool:
        self.sent.append(item)
        return True

    async def next(self) -> Event:
        raise AssertionError("nothing answers a verdict")


def verdict(kind: VerdictKind, job: str = "a", **fields: object) -> Verdict:
    return Verdict(**{"kind": kind, "job": job, "sentence": f"it is {kind.value}", **fields})  # type: ignore[arg-type]


def test_the_worst_verdict_on_each_job_is_sent() -> None:
    line = Line()
    verdicts = [
        verdict(VerdictKind.MISSING, ranks=(3, 4, 5), next="dbg-attach 3 -i", sentence="rank\x1b is missing"),
        verdict(VerdictKind.DEAD),
        verdict(VerdictKind.STUCK, job="b"),
        verdict(VerdictKind.BUSY, job="c"),
        verdict(VerdictKind.UNKNOWN, job="d"),
    ]
    tell_of_hang(Asker(line, Directory(), 1.0), verdicts)
    assert line.sent == [
        Hang(job="a", kind="missing", sentence="rank\\x1b is missing", ranks="3-5", next="dbg-attach 3 -i"),
        Hang(job="b", kind="stuck", sentence="it is stuck"),
    ]


def test_a_hang_without_a_known_cause_is_sent_if_no_rank_moves() -> None:
    line = Line()
    tell_of_hang(
        Asker(line, Directory(), 1.0),
        [verdict(VerdictKind.UNKNOWN, job="d"), verdict(VerdictKind.BUSY, job="c")],
        stands=True,
    )
    assert line.sent == [Hang(job="d", kind="unknown", sentence="it is unknown")]
