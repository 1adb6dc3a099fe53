"""An answer holds what its look asks for."""

from __future__ import annotations

import threading

import pytest

from dbg_agent.evidence import code
from dbg_agent.evidence.gather import evidence_of
from dbg_wire.messages import Look
from dbg_wire.records.evidence import evidence_in
from tests.conftest import Approved


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "WAIT_SECONDS", 60.0)


def test_the_collectives_alone() -> None:
    found = evidence_in(evidence_of(Look.COLLECTIVES, halted=None))
    assert found is not None
    assert (found.waits, found.code) == ((), None)


def test_all_that_may_tell_why_it_hangs(approved: Approved) -> None:
    found = evidence_in(evidence_of(Look.EVIDENCE, halted=threading.main_thread().ident))
    assert found is not None
    approved(found.waits[0].text)
    assert found.process is not None
    assert found.code is not None
    assert found.code.packages
    assert found.parts == ()


def test_the_parts_of_the_code() -> None:
    found = evidence_in(evidence_of(Look.CODE, halted=None))
    assert found is not None
    assert "pytest" in [part.name for part in found.parts]
