"""What is read of files and directories that anybody may have filled, and what is told of the rest."""

from __future__ import annotations

import base64
import lzma
import os
import pickle
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dbg_client.after import case_file, files
from dbg_client.after.case_file import (
    BEGINNING,
    OUT,
    TITLE,
    CantReadReport,
    CaseFile,
    cleaned,
    lines_of,
    read_report,
    snapshots_of,
)
from dbg_client.after.files import find_in, rank_in
from dbg_client.why.explain import HangEvidence, JobSnapshot
from dbg_client.why.process_groups import RankEvidence
from dbg_wire.records.evidence import Activity, ActivityInfo, Evidence, NamedProcess, ProcessSeen, Target, ThreadWait
from dbg_wire.records.ranks import Place, RankState
from tests.conftest import Approved
from tests.support.rank_evidence import elsewhere, rows_of, silent, waiting
from tests.support.rank_infos import changed
from tests.support.recorded import dump, pickled, raw

LOOK = JobSnapshot(at=0.0, everybody=[waiting(0), elsewhere(1), waiting(2), waiting(3)])
DUMP = pickled(raw(1, "nccl:all_reduce"))


class Runs:
    """An object whose pickle makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("/tmp/nccl_trace_rank_0", 0),
        ("comm_lib_trace_rank_12", 12),
        ("rank3.pkl", 3),
        ("rank-4.json", 4),
        ("trace.5", 5),
        ("node7_rank_1", 1),
        ("rank_2_of_8", 2),
        ("dump_7.pickle", 7),
        ("trace", None),
        ("rank_999999999", None),
        ("rank_12345678901234567890", None),
    ],
)
def test_rank_is_read_from_the_file_name(name: str, rank: int | None) -> None:
    assert rank_in(name) == rank


def test_directory_is_read_recursively(tmp_path: Path) -> None:
    (tmp_path / "node1").mkdir()
    (tmp_path / "node1" / "trace_rank_1").write_bytes(DUMP)
    (tmp_path / "trace_rank_0.json").write_bytes(dump(raw(1, "gloo:all_reduce")))
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "settings.json").write_text('{"lr": 1}')

    found = find_in([str(tmp_path)])

    assert sorted(found.dumps) == [0, 1]
    assert found.problems == []


def test_newer_dump_of_a_rank_is_used(tmp_path: Path) -> None:
    for name, moment in (("a_rank_0", 200), ("b_rank_0", 100)):
        (tmp_path / name).write_bytes(DUMP)
        os.utime(tmp_path / name, (moment, moment))
    found = find_in([str(tmp_path)])
    assert found.dumps[0][0].written == 200
    assert "b_rank_0 is ignored" in found.notes[0]


def problem_of(path: Path | str) -> str:
    """Return the only sentence on a file that is named."""
    found = find_in([str(path)])
    assert not found.dumps
    (problem,) = found.problems
    assert problem.isprintable()
    return problem


def test_pickle_with_code_is_not_executed(tmp_path: Path) -> None:
    path = tmp_path / "trace_rank_0"
    path.write_bytes(pickle.dumps({"entries": [Runs(tmp_path / "ran")]}))
    assert "contains code" in problem_of(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content",
    [
        *(DUMP[:size] for size in (0, 1, 40, len(DUMP) - 1)),
        b"\x80\x02]q\x00.",
        b"{" * 100_000,
        b'{"entries": 5}',
        b'{"entries": [' + b"[" * 100_000,
        pickle.dumps({"entries": [{}]}),
        b"\x80\x02" + b"]" * 200,
        b"text",
        b"dbg-attach report, 2026\n",
    ],
    ids=range(12),
)
def test_invalid_dump_is_reported(approved: Approved, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace_rank_0"
    path.write_bytes(content)
    approved(problem_of(path))


def test_name_without_a_rank_is_reported(approved: Approved, tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(DUMP)
    approved(problem_of(tmp_path / "trace"))


def test_only_regular_files_are_opened(approved: Approved, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe_rank_0")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket_rank_1"))
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "gone").symlink_to("nowhere")
    paths = [str(tmp_path / name) for name in ("pipe_rank_0", "socket_rank_1", "round", "gone")]
    approved("\n".join(problem_of(name) for name in (*paths, "/dev/zero", "x\0y/z")))
    found = find_in([str(tmp_path)])
    assert found.dumps == {}


def test_a_link_to_a_dump_is_read_and_one_to_a_directory_is_not_entered(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "kept").write_bytes(DUMP)
    (inner / "trace_rank_0").symlink_to("kept")
    (inner / "up").symlink_to(tmp_path)
    found = find_in([str(tmp_path)])
    assert sorted(found.dumps) == [0]


def test_a_large_file_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILE", 1024)
    path = tmp_path / "trace_rank_0"
    with path.open("wb") as file:
        file.write(b"\x80\x02")
        file.truncate(10**12)
    assert "is larger than" in problem_of(path)


def test_newest_report_of_each_job_is_used(tmp_path: Path) -> None:
    for name, now in (("a.txt", 200.0), ("b.txt", 300.0), ("c.txt", 100.0)):
        (tmp_path / name).write_bytes(written(saved(HangEvidence(snapshots=[LOOK], now=now))))
    found = find_in([str(tmp_path)])
    assert [path.rpartition("/")[2] for _, path in found.reports] == ["b.txt"]
    assert len(found.notes) == 2
    named = find_in([str(tmp_path / name) for name in ("a.txt", "b.txt")])
    assert len(named.reports) == 2


def case_of(*snapshots: Sequence[RankEvidence]) -> HangEvidence:
    """Return a case of these looks, some seconds apart."""
    made = [JobSnapshot(at=1.5 * number, everybody=look) for number, look in enumerate(snapshots)]
    return HangEvidence(snapshots=made, now=1_790_000_000.0)


def answered(one: RankEvidence) -> RankEvidence:
    """Return a rank whose answer has the evidence as rows."""
    rows = rows_of(one.evidence) if one.evidence is not None else ()
    return replace(one, answer=one.answer.replace(rows=rows))


def saved(case: HangEvidence) -> CaseFile:
    ranks = tuple(one.rank for one in case.snapshots[0].everybody)
    made = replace(
        case, snapshots=[replace(look, everybody=list(map(answered, look.everybody))) for look in case.snapshots]
    )
    return CaseFile(about="dbg-attach report", now=case.now, ranks=ranks, snapshots=snapshots_of(made))


def written(file: CaseFile) -> bytes:
    """Return a report that ends in this case."""
    return b"%b about all\n\nRanks\n  0\n\n" % BEGINNING + "\n".join(lines_of(file)).encode()


def with_waits(one: RankEvidence, *waits: ThreadWait) -> RankEvidence:
    """Return a rank with threads and a process, too."""
    assert one.evidence is not None
    evidence = Evidence(
        sources=one.evidence.sources,
        groups=one.evidence.groups,
        collectives=one.evidence.collectives,
        waits=waits,
        process=ProcessSeen(state="S", main_cpu=3.25 + one.rank.rank),
    )
    return RankEvidence(rank=one.rank, answer=one.answer, evidence=evidence)


READS = ActivityInfo(what=Activity.READ, target=Target.SOCKET, name="10.0.0.1:9 → 10.0.0.7:4711")
SOCKET = ThreadWait(thread="MainThread", does=READS, is_main=True)


HERE = Place(file="/home/me/train.py", line=41, function="step")
DRIVEN = changed(waiting(0).rank, stop=3, reason="breakpoint", where=HERE, driver="me@h1", local_rank=None)
HALTED = [
    elsewhere(1, state=RankState.HELD),
    elsewhere(2, state=RankState.STOPPED, reason="breakpoint", where=HERE, stop=3),
    silent(3, state=RankState.EXITED, exit=-9),
]


@pytest.mark.parametrize(
    "snapshots",
    [
        pytest.param([[waiting(0), silent(1)]], id="a silent rank"),
        pytest.param([[waiting(0), with_waits(elsewhere(2), SOCKET)]], id="threads and processes"),
        pytest.param(
            [
                [
                    replace(waiting(0), rank=DRIVEN),
                    waiting(2),
                    replace(waiting(1), rank=waiting(1).rank.replace(placement=None)),
                ]
            ],
            id="ranks that tell different things",
        ),
        pytest.param([[waiting(0), *HALTED], [waiting(0, age=61.0), *HALTED]], id="halted and dead ranks"),
    ],
)
def test_snapshots_are_read_back_from_a_report(snapshots: list[list[RankEvidence]]) -> None:
    case = case_of(*snapshots)
    again = read_report(written(saved(case))).case
    assert [[one.evidence for one in look.everybody] for look in again.snapshots] == [
        [one.evidence for one in look] for look in snapshots
    ]
    assert [one.rank for one in again.snapshots[0].everybody] == [one.rank for one in snapshots[0]]
    assert again.explanation().verdicts == case.explanation().verdicts


def test_secrets_are_left_out() -> None:
    process = NamedProcess(pid=9, command="x password=hunter22")
    secret = ThreadWait(thread="main", does=ActivityInfo(what=Activity.CHILD_END, processes=(process,)), is_main=True)
    clean = cleaned(saved(case_of([with_waits(elsewhere(0), secret)])))
    assert "hunter22" not in repr(clean)
    assert OUT in repr(clean)


def test_large_report_keeps_the_first_and_last_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    file = saved(case_of(*([waiting(0, age=60.0 + number), elsewhere(1)] for number in range(9))))
    monkeypatch.setattr(case_file, "MAX_EVIDENCE", len("".join(lines_of(file))) - len(TITLE) - 1)
    assert [look.at for look in read_report(written(file)).snapshots] == [0.0, 12.0]


@pytest.mark.parametrize(
    "packed",
    [
        b"nonsense",
        b"A" * 100_000,
        base64.b64encode(lzma.compress(b"{" * 100_000)),
        base64.b64encode(lzma.compress(b"[" * 100_000)),
        base64.b64encode(lzma.compress(b'{"about":"","now":0,"snapshots":[{"at":0,"answers":[]}],"ranks":5}')),
        base64.b64encode(lzma.compress(b" " * 10**7)),
    ],
    ids=range(6),
)
def test_hostile_evidence_is_refused(packed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_file, "MAX_DOCUMENT", 10**6)
    with pytest.raises(CantReadReport, match="damaged"):
        read_report(b"%b\n\n%b\n%b" % (BEGINNING, TITLE.encode(), packed))


def test_report_without_evidence_is_refused() -> None:
    with pytest.raises(CantReadReport, match="without evidence"):
        read_report(BEGINNING + b" about all\n\nRanks\n  0\n")
