"""`why` decides the same whatever language its sentences are in: of recorded jobs, and of whatever ranks tell.

The other tests of this folder explain their cases in placeholders as well, by its ``conftest``.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbg_client.after.case_file import CaseFile
from dbg_client.why.explain import JobLook
from tests.support.placeholders import explained_alike
from tests.unit.client.why.test_explain import NOW, ranks
from tests.unit.client.why.test_recorded_jobs import CASES


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_recorded_hangs_are_decided_alike(path: Path) -> None:
    case = msgspec.convert(json.loads(path.read_text())["case"], CaseFile).case
    for looks in (case.looks[:1], case.looks):
        explained_alike(looks, case.now)


@settings(deadline=None, max_examples=10)
@given(st.tuples(*(ranks(number) for number in range(4))), st.tuples(*(ranks(number) for number in range(4))))
def test_whatever_ranks_tell_is_decided_alike(before: tuple[object, ...], now: tuple[object, ...]) -> None:
    looks = [JobLook(at=at, everybody=some) for at, some in ((0.0, before), (5.0, now))]  # type: ignore[arg-type]
    explained_alike(looks, NOW)
