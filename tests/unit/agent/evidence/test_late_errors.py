"""What is added to an error that a GPU reports late."""

from __future__ import annotations

import pytest

from dbg_agent.evidence import gather
from dbg_agent.evidence.late_errors import late_error_note
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, GroupSeen

CUDA = "RuntimeError: CUDA error: device-side assert triggered"
SEEN = [
    GroupSeen(library="torch", name="1", title="dp_0"),
    CollectiveSeen(group="1", name="all_reduce", state=CollectiveState.COMPLETED, sequence=3170, age=9.0),
    CollectiveSeen(group="1", name="all_reduce", state=CollectiveState.ENQUEUED, sequence=3171, age=1.0),
]


def test_the_last_collective_and_the_way_to_the_line_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "collectives_seen", lambda: SEEN)
    assert late_error_note(CUDA, {}) == (
        "the error may come from an earlier call: last collective all_reduce #3171 of dp_0; "
        "run with CUDA_LAUNCH_BLOCKING=1 to see the line that launched it"
    )
    assert late_error_note("DistBackendError: NCCL error in: x.cpp", {}) == (
        "the error may come from an earlier call: last collective all_reduce #3171 of dp_0"
    )


def test_with_blocking_launches_the_line_is_right() -> None:
    assert late_error_note(CUDA, {"CUDA_LAUNCH_BLOCKING": "1"}) == ""
    assert "CUDA_LAUNCH_BLOCKING=1" in late_error_note(CUDA, {"CUDA_LAUNCH_BLOCKING": "0"})


def test_the_variable_is_that_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "HIP_LAUNCH_BLOCKING=1" in late_error_note("RuntimeError: HIP error: invalid device function", {})


def test_a_library_that_fails_to_tell_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise OSError

    monkeypatch.setattr(gather, "collectives_seen", fails)
    assert late_error_note(CUDA, {}).startswith("the error may come from an earlier call; run with")


@pytest.mark.parametrize("text", ["OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "ValueError: ship"])
def test_an_error_that_comes_at_once_gets_no_note(text: str) -> None:
    assert late_error_note(text, {}) == ""
