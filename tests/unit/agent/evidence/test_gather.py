"""An answer holds what its look asks for, of all libraries together; so does the note on an error of a GPU."""

from __future__ import annotations

import threading

import pytest

from dbg_agent.evidence import code, gather
from dbg_agent.evidence.gather import collectives_seen, evidence_of
from dbg_agent.evidence.late_errors import late_error_note
from dbg_wire.messages import Look
from dbg_wire.records.evidence import (
    MAX_COLLECTIVES,
    CollectiveSeen,
    CollectiveState,
    GroupSeen,
    SourceSeen,
    evidence_in,
)
from tests.conftest import Approved


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "WAIT_SECONDS", 60.0)


def test_each_look_tells_what_it_asks_for() -> None:
    collectives = evidence_in(evidence_of(Look.COLLECTIVES, halted=None))
    assert collectives is not None
    assert (collectives.waits, collectives.code) == ((), None)
    whole = evidence_in(evidence_of(Look.EVIDENCE, halted=threading.main_thread().ident))
    assert whole is not None
    assert whole.waits[0].is_main
    assert whole.process is not None
    assert whole.code is not None
    assert whole.code.packages
    assert whole.parts == ()
    parts = evidence_in(evidence_of(Look.CODE, halted=None))
    assert parts is not None
    assert "pytest" in [part.name for part in parts.parts]


def seen(age: float | None, state: CollectiveState = CollectiveState.ENQUEUED) -> CollectiveSeen:
    """Return a collective that was called so long ago."""
    return CollectiveSeen(group="0", name="all_reduce", state=state, age=age)


def test_unfinished_ones_come_first_and_the_oldest_of_them_and_no_more_than_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = seen(99.0, CollectiveState.COMPLETED)
    source = SourceSeen(library="torch")
    monkeypatch.setattr(gather, "torch_seen", lambda is_still: [done, seen(1.0), source, seen(5.0)])
    monkeypatch.setattr(gather, "mpi_seen", lambda: [seen(None)])
    assert collectives_seen() == [source, seen(5.0), seen(1.0), seen(None), done]
    monkeypatch.setattr(gather, "torch_seen", lambda is_still: [seen(1.0)] * 10_000)
    assert len(collectives_seen()) == MAX_COLLECTIVES


def test_a_library_that_cant_be_read_says_so(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise AttributeError("gone")

    monkeypatch.setattr(gather, "torch_seen", lambda is_still: [])
    monkeypatch.setattr(gather, "mpi_seen", fails)
    (source,) = collectives_seen()
    assert isinstance(source, SourceSeen)
    assert source.library == "mpi4py"
    approved(source.lack)


CUDA = "RuntimeError: CUDA error: device-side assert triggered"
SEEN = [
    GroupSeen(library="torch", name="1", title="dp_0"),
    CollectiveSeen(group="1", name="all_reduce", state=CollectiveState.COMPLETED, sequence=3170, age=9.0),
    CollectiveSeen(group="1", name="all_reduce", state=CollectiveState.ENQUEUED, sequence=3171, age=1.0),
]


@pytest.mark.parametrize(
    "text", [CUDA, "DistBackendError: NCCL error in: x.cpp", "RuntimeError: HIP error: invalid device function"]
)
def test_of_an_error_that_a_gpu_reports_late_the_last_collective_and_the_way_to_the_line_are_told(
    approved: Approved, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(gather, "collectives_seen", lambda: SEEN)
    approved(late_error_note(text, {}))


def test_a_library_that_fails_to_tell_is_passed_over(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise OSError

    monkeypatch.setattr(gather, "collectives_seen", fails)
    approved(late_error_note(CUDA, {"CUDA_LAUNCH_BLOCKING": "0"}))


@pytest.mark.parametrize("text", ["OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "ValueError: ship"])
def test_an_error_that_comes_at_once_gets_no_note(text: str) -> None:
    assert late_error_note(text, {}) == late_error_note(CUDA, {"CUDA_LAUNCH_BLOCKING": "1"}) == ""
