"""What a rank tells of why it does not go on comes out of the rows as it went in, and nothing else does."""

from dbg_wire.codec import decode, encode
from dbg_wire.messages import Answer, Kind, Sender
from dbg_wire.records.evidence import (
    MAX_EVIDENCE_BYTES,
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
    evidence_in,
    fitting,
)
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import size_of

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
    answer = decode(encode(Answer(request=1, kind=Kind.VALUE, text="", rows=fitting(RECORDS))), Sender.AGENT)
    assert isinstance(answer, Answer)
    found = evidence_in(answer.rows)

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


def test_an_answer_without_evidence_is_told_from_one_that_knows_little() -> None:
    assert evidence_in(()) is None
    assert evidence_in(("a row of a screen",)) is None
    assert evidence_in((ProcessSeen(),)) is not None


def test_what_does_not_fit_into_an_answer_is_counted() -> None:
    parts = [CodePart(kind=CodeKind.FILE, name=f"/{n}{'x' * 500}", value="0123") for n in range(2000)]

    rows = fitting([GROUP, *parts])

    assert sum(map(size_of, rows)) <= MAX_EVIDENCE_BYTES + 200
    found = evidence_in(rows)
    assert found is not None
    assert found.groups == (GROUP,)
    left_out = len(parts) - len(found.parts)
    (source,) = found.sources
    assert source.lack.startswith(f"{left_out} of its 2001 records ")


def test_a_thread_with_long_paths_loses_its_frames_and_nothing_else() -> None:
    frames = tuple(Place(file=f"/{n}{'x' * 4000}", line=n, function="f") for n in range(10))
    wait = ThreadWait(thread="pump", kind=WaitKind.LOCK, text="waits", frames=frames)

    found = evidence_in(fitting([wait]))

    assert found is not None
    assert [(one.thread, one.text, one.frames) for one in found.waits] == [("pump", "waits", ())]
