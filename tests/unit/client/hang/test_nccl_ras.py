from __future__ import annotations

from dbg_client.core.collective_matching import match_collectives
from dbg_client.core.process_groups import RankEvidence
from dbg_client.hang.explain import JobLook, explain, with_lines
from dbg_client.questions.cause import ras_lines, uses_nccl
from dbg_wire.records.beside import OperationCount, RasRank, RasSeen, RasStatus
from tests.support.rank_evidence import elsewhere, waiting


def job() -> list[RankEvidence]:
    return [waiting(0), waiting(1), waiting(3), elsewhere(2)]


def ras(*ranks: RasRank) -> RasStatus:
    return RasStatus(seen=RasSeen(version="2.28.9"), ranks=ranks)


def rank(number: int, count: int | None, *, state: str = "running") -> RasRank:
    counts = (OperationCount(name="AllReduce", count=count),) if count is not None else ()
    pid = job()[0].rank.pid + number
    return RasRank(communicator="e1f2", rank=number, state=state, host="gpu013.cluster", pid=pid, counts=counts)


def test_ranks_that_are_behind_or_not_reached_stand_below_the_verdict() -> None:
    (matched,) = match_collectives(job())
    status = ras(rank(0, 5), rank(1, 5), rank(2, 4), rank(3, None, state="unresponsive"))

    lines = ras_lines(status, matched.roster)

    assert lines == [
        "NCCL's RAS: unresponsive: rank 3",
        "NCCL's RAS: AllReduce of e1f2, most: 5, rank 2: 4",
    ]
    (verdict,) = with_lines(explain([JobLook(at=0.0, everybody=job())], 0.0), matched.run, lines).verdicts
    assert verdict.evidence[-2:] == tuple(lines)


def test_a_process_that_the_job_does_not_know_keeps_its_number_in_the_communicator() -> None:
    (matched,) = match_collectives(job())
    strangers = ras(rank(0, None, state="dead").replace(pid=1), rank(7, None, state="dead").replace(pid=None))

    assert ras_lines(strangers, matched.roster) == ["NCCL's RAS: dead: rank 0 of e1f2, rank 7 of e1f2"]


def test_equal_counts_are_no_news_and_gloo_is_not_asked() -> None:
    (matched,) = match_collectives(job())

    assert ras_lines(ras(*(rank(n, 5) for n in range(4))), matched.roster) == []
    assert not uses_nccl(matched)
