"""Reading dumps of flight recorders: real ones of gloo, and those of NCCL as its source writes them."""

from __future__ import annotations

import pickle
import time
from types import ModuleType
from typing import Any

import pytest

from dbg_agent.evidence import flight_recorder
from dbg_agent.evidence.flight_recorder import LastStatus, Recorder, read, recorders_of
from tests.support.recorded import DUMPS, dump, raw


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b'{"entries":[{"collective_seq_id":1',
        b'{"entries":[{"collective_seq_id":1}]}',
        b'{"entries":5}',
        pickle.dumps(ValueError),
        (DUMPS / "gloo_2_14.pickle").read_bytes()[:200],
    ],
)
def test_what_is_no_dump_is_a_failure_that_is_told(content: bytes) -> None:
    recorded = read(Recorder("nccl", None, lambda: content), LastStatus(), is_still=True)

    assert recorded.failure
    assert recorded.entries is None


def test_a_recorder_that_raises_is_a_failure_that_is_told() -> None:
    def fails() -> bytes:
        raise RuntimeError("no")

    assert read(Recorder("gloo", fails, fails), LastStatus(), is_still=True).failure == "RuntimeError"


# ------------------------------------------------------------------------------------------------ when entries are read

MANY = flight_recorder.FEW_ENTRIES + 1


def look(backend: str, before: LastStatus, *, enqueued: int, completed: int, is_still: bool = False) -> bool:
    """Look at a recorder with these numbers; tell whether its entries were read."""
    entries = dump(raw(1, f"{backend}:all_reduce"), enqueued=enqueued, completed=completed)
    status = dump(enqueued=enqueued, completed=completed)
    recorded = read(Recorder(backend, lambda: status, lambda: entries), before, is_still=is_still)
    assert recorded.is_used is (enqueued > 0)
    assert not recorded.failure
    return recorded.entries is not None


def test_few_entries_are_always_read() -> None:
    assert look("gloo", LastStatus(), enqueued=MANY - 1, completed=0)


def test_many_entries_are_read_of_a_program_that_waits_only() -> None:
    assert not look("gloo", LastStatus(), enqueued=MANY, completed=0)
    assert look("gloo", LastStatus(), enqueued=MANY, completed=0, is_still=True)


def test_nccl_is_read_while_something_is_unfinished() -> None:
    assert look("nccl", LastStatus(), enqueued=MANY, completed=MANY - 1)
    assert not look("nccl", LastStatus(), enqueued=MANY, completed=MANY)


def test_many_entries_are_read_if_nothing_has_moved_since_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    before = LastStatus()

    assert not look("gloo", before, enqueued=MANY, completed=MANY)
    now += 2 * flight_recorder.UNMOVED_SECONDS
    assert look("gloo", before, enqueued=MANY, completed=MANY)
    assert not look("gloo", before, enqueued=MANY + 1, completed=MANY + 1)


def test_a_recorder_that_is_off_is_not_used() -> None:
    assert not look("gloo", LastStatus(), enqueued=0, completed=0)


# --------------------------------------------------------------------------------------------------- which there are


def module(**functions: Any) -> ModuleType:
    """Return a module with these functions."""
    made = ModuleType("native")
    vars(made).update(functions)
    return made


def test_functions_of_the_program_are_no_recorders() -> None:
    assert recorders_of(module()) == []
    assert recorders_of(module(_dump_fr_trace_json=lambda *_: b"{}", _dump_nccl_trace="text")) == []


def test_each_release_has_its_own_recorders() -> None:
    of_2_4 = recorders_of(module(_dump_nccl_trace=len))
    assert [(recorder.backend, recorder.status) for recorder in of_2_4] == [("nccl", None)]
    of_2_13 = recorders_of(module(_dump_nccl_trace=len, _dump_nccl_trace_json=len, _dump_fr_trace_json=len))
    assert [(recorder.backend, recorder.status is None) for recorder in of_2_13] == [("gloo", False), ("nccl", False)]
