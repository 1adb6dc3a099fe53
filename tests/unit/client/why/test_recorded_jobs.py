"""Verdicts on real jobs of two ranks: each file holds what the ranks of one hang reported, and the expected verdict.

``tests/full/torch/test_hang_edges.py`` runs some of these jobs.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from dbg_client.after.case_file import CaseFile
from dbg_client.why.sentences import fits, sentence_of
from dbg_client.why.show import show_verdicts
from dbg_wire.rank_set import format_ranks
from tests.conftest import Approved

CASES = sorted(Path(__file__).with_name("cases").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_recorded_evidence_of_a_hang_gives_its_verdict(approved: Approved, path: Path) -> None:
    expected = json.loads(path.read_text())
    case = msgspec.convert(expected.pop("case"), CaseFile).case

    verdicts = case.explanation().verdicts

    worst = verdicts[0]
    found = {
        "kind": worst.kind.value,
        "cause": worst.cause.value if worst.cause is not None else None,
        "ranks": format_ranks(worst.ranks),
        "certainty": worst.certainty.value if worst.certainty is not None else None,
    }
    assert found == expected
    assert fits(worst.job, sentence_of(worst))
    approved(show_verdicts(verdicts, color=False))
