"""The remembered runs of a directory, and the bounds on their number."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.run.plan import keep_breakpoints, refuse_short
from dbg_broker.run.remembered import FOLDERS_KEPT, LAST_FILE, OUTPUTS_KEPT, Folder, KeptStop, Remembered, folder_of
from dbg_broker.run.settings import Option, RunOptions
from dbg_wire.errors import BadInput
from dbg_wire.records.ranks import Breakpoint
from dbg_wire.records.stop_points import StopAt
from tests.conftest import Approved

LAST = Remembered(
    command=("srun", "python", "train.py"),
    options=RunOptions(stop_at=("train.py:2, x > 1", "gone.py:1"), stop_in=("a.b:f",), ranks="0-3", post_mortem=True),
    texts=("step()", None),
    breakpoints=(KeptStop.of(StopAt(file="/work/model.py", line=7, condition="y"), "return y"),),
    rank=3,
)
DOCUMENT: dict[str, Any] = {
    "schema": 2,
    "command": ["python", "train.py"],
    "options": {"stop_at": ["train.py:2"], "ranks": "0"},
    "texts": ["step()"],
    "breakpoints": [{"file": "/a.py", "line": 1, "condition": None, "text": None}],
    "rank": 0,
}


@pytest.fixture
def folder(home: Path) -> Folder:
    home.mkdir(mode=0o700, exist_ok=True)
    return folder_of(home, "/work/here")


def write(folder: Folder, text: str) -> None:
    path = folder.path / LAST_FILE
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


# --------------------------------------------------------------------------------------------------------- last.json


def test_the_last_run_comes_back_as_it_was(folder: Folder) -> None:
    assert folder.load() is None
    folder.save(LAST)
    assert folder.load() == LAST
    assert (folder.path / LAST_FILE).stat().st_mode & 0o777 == 0o600


WORDS = st.text(st.characters(codec=None), max_size=10)
STOPS = st.builds(
    StopAt, file=st.text(min_size=1, max_size=10), line=st.integers(1, 10**9), condition=st.none() | st.text(max_size=9)
)
REMEMBERED = st.builds(
    lambda texts, **others: Remembered(texts=tuple(texts), **others),
    command=st.lists(WORDS, min_size=1, max_size=4).map(tuple),
    options=st.builds(
        RunOptions,
        stop_at=st.just(("a.py:1", "b.py:2, x")),
        ranks=st.none() | st.just("0-3"),
        post_mortem=st.booleans(),
        broker=st.sampled_from([(), (Option("--audit-input"), Option("--max-lease", "8h"))]),
    ),
    texts=st.lists(st.none() | st.text(max_size=9), min_size=2, max_size=2),
    breakpoints=st.lists(st.builds(KeptStop.of, STOPS, st.none() | st.text(max_size=9)), max_size=3).map(tuple),
    rank=st.none() | st.integers(0, 99999),
)


@given(REMEMBERED)
def test_whatever_was_typed_comes_back(last: Remembered) -> None:
    with TemporaryDirectory() as path:
        folder = Folder(Path(path))
        folder.save(last)
        assert folder.load() == last


DAMAGED: list[dict[str, Any]] = [
    {"command": []},
    {"command": "python"},
    {"command": [1]},
    {"options": []},
    {"options": {"stop_at": [1]}},
    {"options": {"stop_at": "a"}},
    {"options": {"stop_at": ["nowhere"]}},
    {"options": {"stop_at": ["train.py:2"], "stop_in": ["nowhere"]}},
    {"options": {"stop_at": ["train.py:2"], "ranks": 5}},
    {"options": {"stop_at": ["train.py:2"], "post_mortem": "yes"}},
    {"options": {"stop_at": ["train.py:2"], "output": ["/a"]}},
    {"texts": []},
    {"schema": 1},
    {"texts": [1]},
    {"breakpoints": {}},
    {"breakpoints": ["a.py:1"]},
    {"breakpoints": [{"file": "a.py", "line": "1", "condition": None, "text": None}]},
    {"breakpoints": [{"file": "a.py", "line": 0, "condition": None, "text": None}]},
    {"breakpoints": [{"file": "a.py", "line": 1}]},
    {"breakpoints": [{"file": "a.py", "line": 1, "condition": 1, "text": None}]},
    {"rank": "0"},
    {"rank": True},
]


@pytest.mark.parametrize("damage", DAMAGED, ids=json.dumps)
def test_a_damaged_file_counts_as_none(folder: Folder, damage: dict[str, Any]) -> None:
    write(folder, json.dumps(DOCUMENT))
    assert folder.load() is not None
    write(folder, json.dumps({**DOCUMENT, **damage}))
    assert folder.load() is None


def test_a_file_that_others_could_have_written_counts_as_none(folder: Folder) -> None:
    folder.save(LAST)
    (folder.path / LAST_FILE).chmod(0o666)
    assert folder.load() is None


# ----------------------------------------------------------------------------------------------------------- outputs


def output_of(folder: Folder, job: str, *, age: int) -> tuple[int, Path]:
    descriptor, path = folder.open_output(job, None)
    os.utime(path, (1e9 - age, 1e9 - age))
    return descriptor, path


def test_outputs_of_ended_runs_go_but_the_last_ones(folder: Folder) -> None:
    paths = []
    for number in range(OUTPUTS_KEPT + 3):
        descriptor, path = output_of(folder, f"job-{number}", age=10 - number)
        os.close(descriptor)
        paths.append(path)

    assert [path.exists() for path in paths] == [False, False] + [True] * (OUTPUTS_KEPT + 1)


def test_the_reports_of_an_output_go_with_it(folder: Folder) -> None:
    descriptor, path = output_of(folder, "job-[1]", age=100)
    os.close(descriptor)
    old = [path.with_name(f"job-[1].hang{number}.txt") for number in ("", "-2")]
    other = path.with_name("job-1.hang.txt")
    for report in (*old, other):
        report.touch()
    for number in range(OUTPUTS_KEPT + 1):
        os.close(output_of(folder, f"job-{number + 2}", age=10 - number)[0])

    assert not path.exists()
    assert [report.exists() for report in (*old, other)] == [False, False, True]


def test_an_output_is_begun_anew_and_appended_to(folder: Folder, tmp_path: Path) -> None:
    given = tmp_path / "given.out"
    given.write_bytes(b"of the run before")
    descriptor, path = folder.open_output("job", str(given))
    os.write(descriptor, b"one ")
    with given.open("ab") as other:
        other.write(b"two ")
    os.write(descriptor, b"three")
    os.close(descriptor)

    assert path == given
    assert given.read_bytes() == b"one two three"


@pytest.mark.parametrize("kind", ["folder", "pipe", "terminal"])
def test_an_output_is_an_ordinary_file(approved: Approved, folder: Folder, tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    master, slave = os.openpty()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = Path(os.ttyname(slave))
    with pytest.raises(BadInput) as caught:
        folder.open_output("job", str(path))
    approved(str(caught.value))
    os.close(master)
    os.close(slave)


# ----------------------------------------------------------------------------------------------------------- folders


def test_each_directory_has_a_folder_of_its_own_that_is_closed_to_others(made_home: Path) -> None:
    one, other = folder_of(made_home, "/work/one"), folder_of(made_home, "/work/other\udcff")

    assert one != other
    assert folder_of(made_home, "/work/one") == one
    assert one.path.stat().st_mode & 0o777 == 0o700


def test_the_oldest_directories_are_forgotten_but_where_something_runs(made_home: Path) -> None:
    folders = []
    for number in range(FOLDERS_KEPT):
        folder = folder_of(made_home, f"/work/{number}")
        folder.save(LAST)
        os.utime(folder.path, (1e9 + number, 1e9 + number))
        folders.append(folder)
    running, _ = folders[0].open_output("job", None)
    os.utime(folders[0].path, (1e9, 1e9))

    newest = folder_of(made_home, "/work/new")
    folder_of(made_home, "/work/newer")
    os.close(running)

    assert [folder.path.exists() for folder in folders[:4]] == [True, False, True, True]
    assert newest.path.exists()
    assert folders[-1].load() == LAST


# ------------------------------------------------------------------------------------------------------------- stops


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("import x\n\n    step()\nend()\n")
    return path


def test_new_breakpoints_go_behind_those_kept_before(source: Path) -> None:
    former = (
        KeptStop.of(StopAt(file=str(source), line=1), "import x"),
        KeptStop.of(StopAt(file="/gone.py", line=2), "old()"),
    )
    points = [
        Breakpoint(file=str(source), line=4, text="what the rank ran"),
        Breakpoint(file=str(source), line=1, condition="y", text="import x"),
        Breakpoint(file="/gone.py", line=3),
    ]
    assert keep_breakpoints(points, former) == (
        KeptStop.of(StopAt(file=str(source), line=1, condition="y"), "import x"),
        former[1],
        KeptStop.of(StopAt(file=str(source), line=4), "what the rank ran"),
        KeptStop.of(StopAt(file="/gone.py", line=3), None),
    )


def test_a_line_behind_the_end_is_refused_with_the_number_of_lines(approved: Approved, source: Path) -> None:
    refuse_short(StopAt(file="train.py", line=4), str(source.parent))
    refuse_short(StopAt(file="elsewhere.py", line=400), str(source.parent))
    with pytest.raises(BadInput) as caught:
        refuse_short(StopAt(file="train.py", line=5), str(source.parent))
    approved(str(caught.value))
