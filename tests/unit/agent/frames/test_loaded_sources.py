"""A stop reports files that were edited since they were loaded, and shows the lines around its own."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType

import pytest

from dbg_agent.frames import loaded_sources
from dbg_agent.frames.loaded_sources import edited_files
from tests.conftest import Approved
from tests.unit.agent.pdb_driver import Driver, drive

MODEL = """\
import sys

def train(rank, seen):
    seen.append(1)
    rank.stopping.stop(sys._getframe(), "breakpoint")
    seen.append(2)
    seen.append(3)
    return seen
"""

OTHER = """\
def helper():
    return "helped"
"""

ADDED = "# one\n# two\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "edited_model.py").write_text(MODEL)
    (tmp_path / "edited_other.py").write_text(OTHER)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("edited_model", "edited_other"):
        sys.modules.pop(name, None)
    linecache.checkcache()


@pytest.fixture
def model(folder: Path) -> ModuleType:
    importlib.import_module("edited_other")
    return importlib.import_module("edited_model")


def edit(path: Path) -> None:
    path.write_text(ADDED + path.read_text())


def stopped(driver: Driver, model: ModuleType, script: Callable[[], None]) -> None:
    def resumes() -> None:
        script()
        driver.reply("cl")
        driver.reply("y")
        driver.reply("c")

    finish = drive(driver, resumes)
    assert model.train(driver.rank, []) == [1, 2, 3]
    finish()


def test_a_file_edited_before_the_stop_is_reported_as_changed(
    approved: Approved, driver: Driver, folder: Path, model: ModuleType
) -> None:
    edit(folder / "edited_model.py")
    linecache.clearcache()

    def script() -> None:
        driver.prompt()
        (notice,) = driver.heard("notice")
        approved(str(notice["text"]))
        approved(driver.text.splitlines()[0], "in pdb")

    stopped(driver, model, script)


def edited_in(model: ModuleType) -> list[str]:
    """Return the files that count as edited, at a stop in the module."""
    found: list[list[str]] = []

    class Stops:
        @property
        def stopping(self) -> Stops:
            return self

        def stop(self, frame: FrameType, _reason: str) -> None:
            found.append([Path(path).stem for path in edited_files(frame)])

    model.train(Stops(), [])
    return found[0]


def test_an_edit_within_a_function_is_detected_by_its_lines_alone(folder: Path, model: ModuleType) -> None:
    path = folder / "edited_model.py"
    assert edited_in(model) == []
    path.write_text(MODEL.replace("    seen.append(2)", "\n    seen.append(2)"))
    assert edited_in(model) == ["edited_model"]
    path.write_text(MODEL)
    assert edited_in(model) == []


def test_code_changed_by_an_import_hook_is_not_an_edit(
    folder: Path, model: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "edited_model.py"
    path.write_text(MODEL.replace("seen.append(2)", "seen.append(int(2))"))
    assert edited_in(model) == ["edited_model"]
    monkeypatch.setattr(loaded_sources, "process_started", lambda: path.stat().st_ctime + 60)
    assert edited_in(model) == []
