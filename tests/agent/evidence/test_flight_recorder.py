"""Reading dumps of flight recorders: real ones of gloo, and those of NCCL as its source writes them."""

from __future__ import annotations

import pickle
import time
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.evidence import flight_recorder
from dbg_agent.evidence.flight_recorder import LastStatus, Recorder, entries_of, read, recorders_of
from tests.agent.evidence.recorded import DUMPS, dump, pickled, raw


def told(content: bytes) -> list[tuple[str, str, int, bool]]:
    """Return group, name and sequence of each entry that is kept, and whether it is unfinished."""
    return [(entry.group, entry.name, entry.sequence, entry.is_unfinished) for entry in entries_of(content)]


@pytest.mark.parametrize("name", ["gloo_2_13.json", "gloo_2_14.json", "gloo_2_14.pickle"])
def test_real_dumps_tell_the_unfinished_collective_and_the_last_completed_of_each_group(name: str) -> None:
    content = (DUMPS / name).read_bytes()

    assert told(content) == [("1", "all_gather", 1, False), ("0", "broadcast", 3, False), ("0", "all_reduce", 4, True)]
    last = entries_of(content)[-1]
    assert (last.shapes, last.types, last.timeout, last.library) == (((3, 5),), ("BFloat16",), 20000, "gloo")


def test_nccl_tells_by_the_state_what_has_ended() -> None:
    entries = [
        raw(1, "nccl:all_reduce", state="completed", retired=True),
        raw(2, "nccl:all_reduce", state="completed"),
        raw(3, "nccl:_all_gather_base", state="started"),
        raw(4, "nccl:all_reduce"),
    ]
    expected = [("0", "all_reduce", 2, False), ("0", "_all_gather_base", 3, True), ("0", "all_reduce", 4, True)]

    assert told(dump(*entries)) == expected
    assert told(pickled(*entries)) == expected


@pytest.mark.parametrize(("state", "unfinished"), [("completed", []), ("started", ["send 0->1", "coalesced"])])
def test_members_of_a_batch_end_with_the_batch(state: str, unfinished: list[str]) -> None:
    content = dump(
        raw(1, "nccl:send 0->1", is_p2p=True, p2p_seq_id=1),
        raw(2, "nccl:coalesced", p2p_seq_id=1, state=state),
    )

    assert [entry.name for entry in entries_of(content) if entry.is_unfinished] == unfinished


def test_a_send_counts_apart_and_is_no_last_collective() -> None:
    content = dump(
        raw(5, "nccl:all_reduce", state="completed"),
        raw(5, "nccl:send 0->1", is_p2p=True, p2p_seq_id=9, state="completed"),
        raw(5, "nccl:recv 0<-1", is_p2p=True, p2p_seq_id=10, state="started"),
    )

    assert told(content) == [("0", "all_reduce", 5, False), ("0", "recv 0<-1", 10, True)]


OUTCOMES = st.tuples(st.sampled_from("01"), st.booleans(), st.sampled_from(["plain", 'quoted"},{"x', "},{"]))


@given(st.lists(OUTCOMES, max_size=30))
def test_the_quick_way_finds_what_a_full_parse_finds(outcomes: list[tuple[str, bool, str]]) -> None:
    entries = [
        raw(number, "gloo:all_reduce", group=group, retired=is_retired, thread_name=thread)
        for number, (group, is_retired, thread) in enumerate(outcomes)
    ]
    # With a space behind the colon, the entries are not where the quick way looks for them.
    slow = dump(*entries).replace(b'"entries":[{', b'"entries": [{')

    assert told(dump(*entries)) == told(slow)


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


def test_of_a_full_buffer_little_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    entry = flight_recorder._entry
    monkeypatch.setattr(flight_recorder, "_entry", lambda raw: parsed.append(raw) or entry(raw))  # type: ignore[func-returns-value]
    entries = [raw(number, "gloo:all_reduce", retired=True) for number in range(2000)]

    assert told(dump(*entries, raw(2000, "gloo:all_reduce"))) == [
        ("0", "all_reduce", 1999, False),
        ("0", "all_reduce", 2000, True),
    ]
    assert len(parsed) == 2
