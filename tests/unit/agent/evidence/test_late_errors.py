"""What is added to an error that a GPU reports late."""

from __future__ import annotations

import pytest

from dbg_agent.evidence import gather
from dbg_agent.evidence.late_errors import late_error_note
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, GroupSeen
from tests.conftest import Approved

CUDA = "RuntimeError: CUDA error: device-side assert triggered"
SEEN = [
    GroupSeen(library="torch", name="1", title="dp_0"),
    CollectiveSeen(group="1", name="all_reduce", state=CollectiveState.COMPLETED, sequence=3170, age=9.0),
    CollectiveSeen(group="1", name="all_reduce", state=CollectiveState.ENQUEUED, sequence=3171, age=1.0),
]


def test_the_last_collective_and_the_way_to_the_line_are_told(
    approved: Approved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "collectives_seen", lambda: SEEN)
    approved(late_error_note(CUDA, {}))
    approved(late_error_note("DistBackendError: NCCL error in: x.cpp", {}), "2")


def test_with_blocking_launches_the_line_is_right() -> None:
    assert late_error_note(CUDA, {"CUDA_LAUNCH_BLOCKING": "1"}) == ""
    assert "CUDA_LAUNCH_BLOCKING=1" in late_error_note(CUDA, {"CUDA_LAUNCH_BLOCKING": "0"})


def test_the_variable_is_that_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "HIP_LAUNCH_BLOCKING=1" in late_error_note("RuntimeError: HIP error: invalid device function", {})


def test_a_library_that_fails_to_tell_is_passed_over(approved: Approved, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise OSError

    monkeypatch.setattr(gather, "collectives_seen", fails)
    approved(late_error_note(CUDA, {}))


@pytest.mark.parametrize("text", ["OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "ValueError: ship"])
def test_an_error_that_comes_at_once_gets_no_note(text: str) -> None:
    assert late_error_note(text, {}) == ""
