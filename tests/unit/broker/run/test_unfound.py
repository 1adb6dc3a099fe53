"""A stop in a file or module that does not exist is reported before the job starts, without running user code."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbg_broker.run import plan
from dbg_broker.run.plan import notes_of_unfound
from dbg_wire.records.stop_points import StopAt, StopIn, parse_stop_in
from tests.conftest import Approved

COMMAND = ("python", "src/train.py")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("train.py", "src/train.py", "src/pkg/__init__.py", "src/pkg/model.py", ".git/hidden.py"):
        path = tmp_path / "here" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise SystemExit('was run')\n")
    (tmp_path / "library" / "deep").mkdir(parents=True)
    (tmp_path / "library" / "deep" / "kernels.py").write_text("")
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"))
    return tmp_path / "here"


def notes(folder: Path, *stops: StopAt | StopIn) -> list[str]:
    return notes_of_unfound(stops, str(folder), COMMAND)


@pytest.mark.parametrize(
    "file", ["train.py", "train", "src/pkg/model.py", "model.py", "pkg/model", "deep/kernels.py", "kernels"]
)
def test_a_file_below_the_directory_or_on_the_path_is_found(folder: Path, file: str) -> None:
    assert notes(folder, StopAt(file=file, line=1)) == []
    assert notes(folder, StopAt(file=str(folder / "train.py"), line=1)) == []


@pytest.mark.parametrize(
    "module", ["pkg.model", "pkg", "train", "src.train", "deep.kernels", "json.decoder", "__main__"]
)
def test_a_module_is_found_by_its_file(folder: Path, module: str) -> None:
    assert notes(folder, parse_stop_in(f"{module}:f")) == []


@pytest.mark.parametrize(
    ("stop", "note"),
    [
        ("trian.py", "--stop-at trian.py:307: there is no trian.py here or on the path; did you mean train.py?"),
        ("trian", "--stop-at trian:307: there is no trian.py here or on the path; did you mean train.py?"),
        (
            "pkg/modle",
            "--stop-at pkg/modle:307: there is no pkg/modle.py here or on the path; did you mean src/pkg/model.py?",
        ),
        ("hidden.py", "--stop-at hidden.py:307: there is no hidden.py here or on the path"),
        ("/no/such.py", "--stop-at /no/such.py:307: there is no /no/such.py here or on the path"),
        ("a\x1bb", "--stop-at a\\x1bb:307: there is no a\\x1bb.py here or on the path"),
    ],
)
def test_a_file_that_is_nowhere_is_told(folder: Path, stop: str, note: str) -> None:
    assert notes(folder, StopAt(file=stop, line=307)) == [note]


def test_a_module_that_is_nowhere_is_told(approved: Approved, folder: Path) -> None:
    (told,) = notes(folder, parse_stop_in("src.pkg.modle:f"))
    approved(told)


def test_where_time_runs_out_nothing_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MAX_SECONDS", -1.0)
    assert notes(folder, StopAt(file="trian.py", line=1)) == []
