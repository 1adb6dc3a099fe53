"""Reading dumps of flight recorders: real ones of gloo, and those of NCCL as its source writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.recorder import entries
from dbg_wire.recorder.entries import entries_of
from tests.support.recorded import DUMPS, dump, pickled, raw


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
    recorded = [
        raw(1, "nccl:all_reduce", state="completed", retired=True),
        raw(2, "nccl:all_reduce", state="completed"),
        raw(3, "nccl:_all_gather_base", state="started"),
        raw(4, "nccl:all_reduce"),
    ]
    expected = [("0", "all_reduce", 2, False), ("0", "_all_gather_base", 3, True), ("0", "all_reduce", 4, True)]

    assert told(dump(*recorded)) == expected
    assert told(pickled(*recorded)) == expected


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
    recorded = [
        raw(number, "gloo:all_reduce", group=group, retired=is_retired, thread_name=thread)
        for number, (group, is_retired, thread) in enumerate(outcomes)
    ]
    # With a space behind the colon, the entries are not where the quick way looks for them.
    slow = dump(*recorded).replace(b'"entries":[{', b'"entries": [{')

    assert told(dump(*recorded)) == told(slow)


def test_of_a_full_buffer_little_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    entry = entries._entry
    monkeypatch.setattr(entries, "_entry", lambda raw: parsed.append(raw) or entry(raw))  # type: ignore[func-returns-value]
    recorded = [raw(number, "gloo:all_reduce", retired=True) for number in range(2000)]

    assert told(dump(*recorded, raw(2000, "gloo:all_reduce"))) == [
        ("0", "all_reduce", 1999, False),
        ("0", "all_reduce", 2000, True),
    ]
    assert len(parsed) == 2
