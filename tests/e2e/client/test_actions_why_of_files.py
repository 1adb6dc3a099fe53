"""``dbg-attach why FILE``: what words are taken for, the answer, and its status. There is no broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_client.words.settings import Why
from dbg_wire.errors import BadInput
from tests.conftest import Approved
from tests.support.recorded import pickled, raw
from tests.unit.client.words.typed import settled


def leave_dumps(folder: Path, *ranks: int, last: int = 2) -> None:
    """Write the dumps of ranks that wait in a collective to which rank ``last`` has not come."""
    for rank in ranks:
        done = raw(4, "nccl:all_reduce", state="completed", retired=True)
        entries = [done] if rank == last else [done, raw(5, "nccl:all_reduce", state="started")]
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickled(*entries))


def why(environ: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Type the command in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "dbg_client", "why", *words],
        capture_output=True,
        text=True,
        env=environ,
        cwd=folder,
        timeout=60,
        check=False,
    )


def test_a_directory_of_dumps_names_the_culprit(approved: Approved, environ: dict[str, str], tmp_path: Path) -> None:
    leave_dumps(tmp_path, 0, 1, 2, 3)
    (tmp_path / "nccl_trace_rank_4").write_bytes(b"\x80\x02]q")
    done = why(environ, tmp_path, ".")

    assert done.stdout.startswith("rank 2 has not come to all_reduce #5 of default; 3 of 4 ranks wait\n")
    assert "try:" not in done.stdout
    approved(done.stderr)
    assert done.returncode == 1


def test_files_are_named_one_by_one_and_answer_as_json(
    approved: Approved, environ: dict[str, str], tmp_path: Path
) -> None:
    leave_dumps(tmp_path, 0, 3)
    names = [f"nccl_trace_rank_{rank}" for rank in (0, 3)]
    done = why(environ, tmp_path, *names, "--json")
    document = json.loads(done.stdout)

    assert (document["schema"], document["asked"], document["answered"]) == (1, 4, 2)
    assert document["verdicts"][0]["kind"] == "unknown"
    approved(document["verdicts"][0]["evidence"])
    assert done.returncode == 6


def test_a_word_that_is_a_file_here_is_no_target_and_that_is_told(
    approved: Approved, environ: dict[str, str], tmp_path: Path
) -> None:
    leave_dumps(tmp_path, 0)
    (tmp_path / "nccl_trace_rank_0").rename(tmp_path / "0")
    done = why(environ, tmp_path, "0")
    approved(done.stderr)
    assert done.returncode == 6


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["gone.txt"], 2),
        (["./gone.txt"], 1),
        (["gone/rank_0", "gone/rank_1"], 1),
        (["."], 1),
        (["./train.py"], 1),
        (["./train.py", "--every", "2"], 2),
        (["0", "1"], 2),
        (["job/0-3"], 4),
        (["list"], 2),
    ],
)
def test_what_can_not_be_read_is_told(
    approved: Approved, environ: dict[str, str], tmp_path: Path, words: list[str], status: int
) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    done = why(environ, tmp_path, *words)
    approved(done.stderr)
    assert (done.returncode, done.stdout) == (status, "")


def test_hostile_names_are_shown_in_one_line(environ: dict[str, str], tmp_path: Path) -> None:
    name = "x\x1b[2J\nrank_1"
    (tmp_path / name).write_bytes(b"\x80\x02]q")
    done = why(environ, tmp_path, f"./{name}")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


def test_many_broken_files_are_told_in_a_few_lines(approved: Approved, environ: dict[str, str], tmp_path: Path) -> None:
    leave_dumps(tmp_path, 0, 1)
    for rank in range(10, 60):
        (tmp_path / f"rank_{rank}").write_bytes(b"\x80\x02]q")
    done = why(environ, tmp_path, ".")
    approved(done.stderr)
    assert done.stderr.count("\n") < 20


def test_words_with_a_slash_or_another_letter_are_files() -> None:
    for line in ("./5", "/tmp", "rank_0", "rank_0 rank_1", "hang.txt"):
        found = settled(f"why {line}", Why)
        assert (found.files, found.target) == (tuple(line.split()), None)
    for line in ("job/0-3", "gpu013:5", "all"):
        found = settled(f"why {line}", Why)
        assert (found.files, found.target) == ((), line)
    with pytest.raises(BadInput):
        settled("why 5 list", Why)
