"""What a rank tells of why it does not go on comes out of the rows as it went in, and nothing else does."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.errors import PeerError
from dbg_wire.evidence import (
    MARKER,
    CodeKind,
    CodePart,
    CodeSeen,
    CollectiveSeen,
    CollectiveState,
    EvidenceRecord,
    GroupSeen,
    ProcessSeen,
    SourceSeen,
    ThreadWait,
    WaitKind,
    decode_evidence,
    encode_evidence,
)
from dbg_wire.limits import MAX_TEXT
from dbg_wire.ranks import Place

GROUP = GroupSeen(library="torch", name="1", title="dp_0", members="0-15", size=16, enqueued=3172, completed=3171)
PENDING = CollectiveSeen(
    group="1", name="all_reduce", state=CollectiveState.ENQUEUED, sequence=3172, types="float32", size=2**30, age=252.0
)
RECORDS: list[EvidenceRecord] = [
    SourceSeen(library="torch", version="2.13.0"),
    GROUP,
    PENDING,
    ThreadWait(thread="MainThread", kind=WaitKind.COLLECTIVE, text="is in all_reduce", is_main=True),
    ProcessSeen(state="S", cpu=1.5),
    CodeSeen(files="ab"),
    CodePart(kind=CodeKind.PACKAGE, name="numpy", value="2.4.0"),
]


def test_each_record_comes_back() -> None:
    found = decode_evidence(encode_evidence(RECORDS))

    assert found is not None
    assert found.groups == (GROUP,)
    assert found.collectives == (PENDING,)
    assert [
        *found.sources,
        *found.groups,
        *found.collectives,
        *found.waits,
        found.process,
        found.code,
        *found.parts,
    ] == (RECORDS)


def test_an_older_rank_answers_without_evidence() -> None:
    assert decode_evidence(()) is None
    assert decode_evidence(("a row of a screen",)) is None


@pytest.mark.parametrize("row", ["", "{", "[]", "{}", '{"row":"group"}', '{"row":"weather"}', "[" * 5000])
def test_rows_that_hold_no_evidence_are_refused(row: str) -> None:
    with pytest.raises(PeerError):
        decode_evidence((MARKER, row))


@given(st.text())
def test_any_row_is_read_or_refused(row: str) -> None:
    with suppress(PeerError):
        decode_evidence((MARKER, row))


def test_a_thread_with_long_paths_loses_its_frames_and_nothing_else() -> None:
    frames = tuple(Place(file=f"/{n}{'x' * 4000}", line=n, function="f") for n in range(10))
    wait = ThreadWait(thread="pump", kind=WaitKind.LOCK, text="waits for a lock", frames=frames)

    rows = encode_evidence([wait])

    assert all(len(row) <= MAX_TEXT for row in rows)
    found = decode_evidence(rows)
    assert found is not None
    assert [(one.thread, one.text, one.frames) for one in found.waits] == [("pump", "waits for a lock", ())]
