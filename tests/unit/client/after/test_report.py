"""The text of a report, made of its case."""

from __future__ import annotations

from collections.abc import Sequence

from dbg_client.after.case_file import CaseFile, cleaned, read_report, snapshots_of
from dbg_client.after.report import report_text
from dbg_client.why.explain import HangEvidence, JobSnapshot
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.ranks import RankInfo
from tests.conftest import Approved
from tests.support.rank_evidence import LOADING
from tests.unit.client.fake_broker import make_rank

NOW = 1760000060.0


def report(*ranks: RankInfo) -> str:
    """Return the report of a look at these ranks."""
    answers = tuple(RankAnswer(key=one.key, kind=Kind.VALUE, text="stopped", frames=LOADING) for one in ranks)
    saved = CaseFile(about="dbg-attach report about all", now=NOW, ranks=ranks, problem="no rank to ask")
    if ranks:
        saved = saved.replace(
            snapshots=snapshots_of(HangEvidence(snapshots=[JobSnapshot(at=0.0, everybody=[])], now=NOW))
        )
        saved = saved.replace(snapshots=(saved.snapshots[0].replace(answers=answers),))
    saved = cleaned(saved.replace(versions=("terminal  dbg-attach 0.2.0",), output=("step 3",)))
    return report_text(saved, saved.case.explanation() if ranks else None)


def section(text: str, title: str) -> Sequence[str]:
    """Return the lines of a section, without their indentation."""
    behind = text.partition(f"\n{title}\n")[2]
    return [line.strip() for line in behind.partition("\n\n")[0].strip().split("\n")]


def test_report_sections_match_the_evidence_at_its_end() -> None:
    text = report(make_rank(0, release="0.2.0", python="3.12.1"), make_rank(1, release="0.1.0", python="3.11.7"))

    terminal, *agents = section(text, "Versions")
    assert terminal == "terminal  dbg-attach 0.2.0"
    assert set(agents) == {"ranks     agent 0.2.0, Python 3.12.1: 0", "ranks     agent 0.1.0, Python 3.11.7: 1"}
    assert "are stopped in the debugger" in section(text, "Why it hangs")[0]
    assert "wait_for_shard data.py:17" in section(text, "Stacks")[1]
    assert section(text, "Last lines of its output") == ["step 3"]
    read = read_report(text.encode())
    assert [rank.rank for rank in read.ranks] == [0, 1]
    assert "are stopped in the debugger" in report_text(read, read.case.explanation())


def test_report_without_ranks_names_the_problem(approved: Approved) -> None:
    approved(report())


def test_secrets_and_control_characters_are_taken_out() -> None:
    text = report(make_rank(0, error="ValueError: token=abcdefgh1234\x1b[31m"))

    assert "abcdefgh1234" not in text + repr(read_report(text.encode()))
    assert "\x1b" not in text
