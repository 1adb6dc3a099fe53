"""A case in a report: what was written is read again, a thousand ranks are small, and hostile reports are refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dbg_client.core.process_groups import RankEvidence
from dbg_client.dumps.report_file import (
    BEGINNING,
    TITLE,
    CantReadReport,
    case_lines,
    read_report,
)
from dbg_client.hang.explain import Case, JobLook
from dbg_client.views.report import OUT
from dbg_wire.records.evidence import CodeKind, CodePart, Evidence, ProcessSeen, ThreadWait, WaitKind
from dbg_wire.records.ranks import Place, RankState
from tests.support.rank_evidence import elsewhere, silent, waiting
from tests.support.rank_infos import changed

PLENTY = 10**9


def case_of(*looks: Sequence[RankEvidence]) -> Case:
    """Return a case of these looks, some seconds apart."""
    made = [JobLook(at=1.5 * number, everybody=look) for number, look in enumerate(looks)]
    return Case(looks=made, now=1_790_000_000.0, lines=[])


def written(lines: Sequence[str]) -> bytes:
    """Return a report that ends in these lines."""
    return (
        b"%b about all\n\nRanks\n  0\n\n%b\n" % (BEGINNING, TITLE.encode())
        + "".join(f"  {line}\n" for line in lines).encode()
    )


def again(case: Case, most: int = PLENTY) -> Case:
    """Return the case as it is read from a report."""
    lines, _ = case_lines(case, most)
    return read_report(written(lines)).case


def with_waits(one: RankEvidence, *waits: ThreadWait) -> RankEvidence:
    """Return a rank with threads and a process, too."""
    assert one.evidence is not None
    evidence = Evidence(
        sources=one.evidence.sources,
        groups=one.evidence.groups,
        collectives=one.evidence.collectives,
        waits=waits,
        process=ProcessSeen(state="S", cpu=12.5, main_cpu=3.25 + one.rank.rank),
    )
    return RankEvidence(rank=one.rank, answer=one.answer, evidence=evidence)


SOCKET = ThreadWait(thread="MainThread", kind=WaitKind.SOCKET, text="reads the socket 10.0.0.7:4711", is_main=True)


def test_the_same_verdicts_come_of_it() -> None:
    first = [waiting(0), waiting(1), waiting(3), with_waits(elsewhere(2), SOCKET)]
    case = case_of(first, [*first[:3], with_waits(elsewhere(2, age=64.25), SOCKET)])
    read = again(case)

    assert read == case
    assert read.explanation() == case.explanation()
    assert "reads the socket 10.0.0.7:4711" in read.explanation().verdicts[0].sentence


def test_silent_ranks_parts_and_further_lines_are_read_again() -> None:
    parts = {("4711.0", "0.0"): {2: (CodePart(kind=CodeKind.PACKAGE, name="numpy", value="2.0"),)}}
    made = case_of([waiting(0), silent(1)])
    case = Case(looks=made.looks, now=made.now, parts=parts, lines=[(("4711.0", "0.0"), ["NCCL's RAS: lost"])])
    assert again(case) == case


def test_ranks_that_tell_different_things_are_read_again() -> None:
    place = Place(file="/home/me/train.py", line=41, function="step")
    one, other = waiting(0), waiting(1)
    stopped = changed(one.rank, stop=3, reason="breakpoint", where=place, driver="me@h1", local_rank=None)
    case = case_of([replace(one, rank=stopped), waiting(2), replace(other, rank=other.rank.replace(placement=None))])
    assert again(case) == case


def test_ranks_in_a_debugger_and_ranks_that_have_ended_are_read_again() -> None:
    here = Place(file="/home/me/train.py", line=41, function="step")
    held = elsewhere(1, state=RankState.HELD)
    stopped = elsewhere(2, state=RankState.STOPPED, reason="breakpoint", where=here, stop=3)
    ended = silent(3, state=RankState.EXITED, exit=-9)
    case = case_of([waiting(0), held, stopped, ended], [waiting(0, age=61.0), held, stopped, ended])
    assert again(case) == case


def test_no_rank_is_no_evidence() -> None:
    assert again(case_of([])) == case_of([])


def test_secrets_are_left_out() -> None:
    secret = ThreadWait(thread="main", kind=WaitKind.CHILD, text="waits for `login --password hunter22`", is_main=True)
    case = case_of([with_waits(elsewhere(0), secret.replace(text="waits for `x password=hunter22`"))])
    lines, read = case_lines(case, PLENTY)
    assert "hunter22" not in "".join(lines)
    assert OUT in "".join(lines)
    assert read == read_report(written(lines)).case


def test_what_fits_in_no_way_is_left_out() -> None:
    case = case_of([waiting(0), elsewhere(1)])
    assert case_lines(case, 100) == ([], case)


RANKS = {"ranks": {"count": 0, "columns": {}}}
HEAD = {"case": 1, "now": 0, "looks": [0], "lines": [], "parts": []}


@pytest.mark.parametrize(
    "lines",
    [
        ["{"],
        ["{}"],
        ["[" * 100_000],
        [json.dumps({**HEAD, "case": 2}), json.dumps(RANKS)],
        [json.dumps(HEAD)],
        [json.dumps(HEAD), json.dumps({"ranks": {"count": 10**9, "columns": {}}})],
        [json.dumps(HEAD), json.dumps({"ranks": {"count": 5, "columns": {"key": {"all": 1}}}})],
        [json.dumps(HEAD), json.dumps(RANKS), json.dumps({"look": 7, "answers": {"count": 0, "columns": {}}})],
        [json.dumps(HEAD), json.dumps(RANKS), json.dumps({"look": 0, "rows": "wait", "count": 10**8, "columns": {}})],
        [
            json.dumps(HEAD),
            json.dumps({"ranks": {"count": 2, "columns": {"key": {"of": ["a"] * 999, "in": ["0-999999"] * 999}}}}),
        ],
    ],
)
def test_hostile_evidence_is_refused(lines: list[str]) -> None:
    with pytest.raises(CantReadReport, match="damaged"):
        read_report(written([*lines] if lines[0].startswith("{") else ["{}", *lines]))


def test_a_report_without_evidence_says_so() -> None:
    with pytest.raises(CantReadReport, match="without evidence"):
        read_report(BEGINNING + b" about all\n\nRanks\n  0\n")
