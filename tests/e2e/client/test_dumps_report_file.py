"""A case in a report: what was written is read again, a thousand ranks are small, and hostile reports are refused."""

from __future__ import annotations

import pytest

from dbg_client.core.process_groups import RankEvidence
from dbg_client.dumps.report_file import (
    MAX_REPORT,
    case_lines,
    read_report,
)
from dbg_wire.records.evidence import Evidence, ProcessSeen, ThreadWait, WaitKind
from dbg_wire.records.ranks import Place
from tests.support.rank_evidence import LOADING, REDUCING, TORCH, call, done, elsewhere, group, waiting
from tests.unit.client.dumps.test_files import case_of, written


def thousand(*, differ: bool) -> list[RankEvidence]:
    """Return a thousand ranks that wait for one; with ``differ`` no two of them tell the same of anything."""
    found = []
    for number in range(1000):
        own = f"_{number}" if differ else ""
        threads = [
            ThreadWait(
                thread=f"thread{own}_{at}",
                kind=WaitKind.LOCK,
                text=f"lock{own}",
                frames=tuple(Place(file=f"/home/me/module{own}.py", line=line, function="f") for line in range(20)),
            )
            for at in range(8)
        ]
        one = waiting(number, world_size=1000) if number != 77 else elsewhere(number, world_size=1000)
        frames = tuple(place.replace(file=f"{place.file}{own}") for place in (*LOADING, *REDUCING))
        evidence = Evidence(
            sources=(TORCH,),
            groups=tuple(group(str(n), f"0-{999 - n}", title=f"g{n}", at=4) for n in range(4)),
            collectives=tuple(
                (call(5, group=str(n), age=60 + number / 777) if number != 77 else done(4, group=str(n)))
                for n in range(4)
            ),
            waits=tuple(threads),
            process=ProcessSeen(state="S", cpu=100 / (number + 1), main_cpu=number / 7, input=number * 1000),
        )
        answer = one.answer.replace(frames=frames, age=60 + number / 777)
        found.append(RankEvidence(rank=one.rank, answer=answer, evidence=evidence))
    return found


@pytest.mark.parametrize("differ", [False, True])
def test_a_thousand_ranks_fit_and_give_the_same_verdict(differ: bool) -> None:
    everybody = thousand(differ=differ)
    case = case_of(everybody, everybody)
    lines, kept = case_lines(case, MAX_REPORT // 2)
    data = written(lines)

    assert lines
    assert len(data) < MAX_REPORT
    found = read_report(data).case.explanation()
    assert found == kept.explanation()
    assert [verdict.sentence for verdict in found.verdicts] == [
        verdict.sentence for verdict in case.explanation().verdicts
    ]
    assert found.verdicts[0].ranks == (77,)
