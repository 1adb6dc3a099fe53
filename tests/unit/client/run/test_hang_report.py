"""Where the report of a hang is, and the last lines of a job and of its ranks in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbg_client.run import hang_report
from dbg_client.run.hang_report import MAX_REPORTS, last_lines, report_path, write_hang_report


def test_it_lies_beside_the_output() -> None:
    assert report_path("/runs/train-7.out", 1) == Path("/runs/train-7.hang.txt")
    assert report_path("/logs/one.log", 2) == Path("/logs/one.log.hang-2.txt")


def test_a_job_that_hangs_again_and_again_keeps_its_first_reports(tmp_path: Path) -> None:
    output = str(tmp_path / "train.out")
    for number in range(MAX_REPORTS + 3):
        write_hang_report(output, f"hang {number}")
    assert len(list(tmp_path.iterdir())) == MAX_REPORTS
    assert report_path(output, 1).read_text() == "hang 0"
    assert report_path(output, MAX_REPORTS).read_text() == f"hang {MAX_REPORTS + 2}"


def told_of(folder: Path, lines: list[str]) -> list[str]:
    """Return what is told of an output with these lines."""
    output = folder / "train.out"
    output.write_bytes("\n".join(lines).encode())
    return last_lines(str(output), [])


@pytest.mark.parametrize(
    "lines",
    [
        ["[default0]:step 3", "[default1]:loads", "[default0]:step 4"],
        ["[rank0]: step 3", "[rank1]: loads", "[rank0]: step 4"],
        ["[1,0]<stdout>:step 3", "[1,1]<stdout>:loads", "[1,0]<stderr>:step 4"],
        ["0: step 3", "1: loads", "0: step 4"],
    ],
    ids=["torchrun", "torch", "mpirun", "srun"],
)
def test_lines_of_ranks_are_told_by_rank(lines: list[str], tmp_path: Path) -> None:
    assert told_of(tmp_path, lines) == ["0:", "  step 3", "  step 4", "1:", "  loads"]


def test_equal_lines_of_many_ranks_are_told_once(tmp_path: Path) -> None:
    lines = [f"{rank}: {'waits' if rank != 77 else 'loads shard 7'}" for rank in range(1000)]
    assert told_of(tmp_path, lines) == ["0-76,78-999:", "  waits", "77:", "  loads shard 7"]


def test_without_ranks_the_last_lines_of_all_are_told(tmp_path: Path) -> None:
    assert told_of(tmp_path, [f"step {number}" for number in range(100)]) == [
        f"step {number}" for number in range(60, 100)
    ]


def test_a_progress_bar_is_told_as_it_is_seen_and_nothing_garbles(tmp_path: Path) -> None:
    told = told_of(tmp_path, ["10%\r20%\r30%", "\x1b[2Jloss\x1b]0;title\x07", ""])
    assert told[0] == "30%"
    assert all(line.isprintable() for line in told)


def test_what_can_not_be_read_is_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert last_lines(str(tmp_path / "pipe"), []) == []
    assert last_lines(str(tmp_path / "gone"), []) == []


def test_only_the_end_of_a_long_output_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_report, "TAIL_BYTES", 100)
    output = tmp_path / "train.out"
    output.write_text("x" * 10_000 + "\nlast\n")
    assert last_lines(str(output), [])[-1] == "last"
    assert len("".join(last_lines(str(output), []))) <= 100
