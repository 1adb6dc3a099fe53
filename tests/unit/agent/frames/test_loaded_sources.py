"""Debuggers, and reports of breakpoints, show the lines that the rank runs, and not those that were saved since."""

from __future__ import annotations

import importlib
import linecache
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType

import pytest

from dbg_agent.frames import loaded_sources
from dbg_agent.frames.loaded_sources import Loaded, source_message
from dbg_wire.limits import MAX_TEXT, SOURCE_LINES
from tests.conftest import Approved
from tests.support.time_unit import seconds
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
    def goes_on() -> None:
        script()
        driver.say("cl")
        driver.say("y")
        driver.say("c")

    finish = drive(driver, goes_on)
    assert model.train(driver.rank, []) == [1, 2, 3]
    finish()


Reading = tuple[threading.Event, threading.Event]


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """Return two events: one that lets the rank read the program's files, which is set; one that says that it has."""
    may_read, was_read = threading.Event(), threading.Event()
    may_read.set()
    read_all = Loaded.read_all

    def read(self: Loaded, paths: list[str]) -> None:
        assert may_read.wait(seconds(20))
        read_all(self, paths)
        was_read.set()

    monkeypatch.setattr(Loaded, "read_all", read)
    return may_read, was_read


def test_the_lines_that_run_are_shown(driver: Driver, folder: Path, model: ModuleType, reading: Reading) -> None:
    def script() -> None:
        driver.prompt()
        assert reading[1].wait(seconds(20))
        for name in ("edited_model", "edited_other"):
            edit(folder / f"{name}.py")
        driver.say("ll")
        driver.wait_for(lambda: "return seen" in driver.text, "the source of the function")
        # From 3.13 on pdb begins on the line of the stop itself, and not on the next.
        current = "rank.stopping.stop(" if sys.version_info >= (3, 13) else "seen.append(2)"
        assert f"->\t    {current}" in driver.text
        assert "# two" not in driver.text

    stopped(driver, model, script)
    # After the stop linecache shows the files as they are.
    assert linecache.getline(str(folder / "edited_model.py"), 1) in ("# one\n", "")
    linecache.checkcache()
    assert linecache.getline(str(folder / "edited_model.py"), 1) == "# one\n"


def test_a_file_that_was_edited_before_the_stop_is_said_to_have_changed(
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


def frames_of(model: ModuleType) -> list[str]:
    """Return the files that a debugger calls changed, at a stop in the module."""
    found: list[list[str]] = []

    class Stops:
        @property
        def stopping(self) -> Stops:
            return self

        def stop(self, frame: object, _reason: str) -> None:
            known = Loaded()
            found.append([Path(path).stem for path in known.show(frame)])  # type: ignore[arg-type]
            known.forget()

    model.train(Stops(), [])
    return found[0]


def test_an_edit_within_the_function_is_seen_by_its_lines_alone(folder: Path, model: ModuleType) -> None:
    path = folder / "edited_model.py"
    assert frames_of(model) == []
    path.write_text(MODEL.replace("    seen.append(2)", "\n    seen.append(2)"))
    assert frames_of(model) == ["edited_model"]
    path.write_text(MODEL)
    assert frames_of(model) == []


def test_code_that_an_import_hook_has_changed_is_not_taken_for_an_edit(
    folder: Path, model: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "edited_model.py"
    path.write_text(MODEL.replace("seen.append(2)", "seen.append(int(2))"))
    os.utime(path, (1, 1))
    assert frames_of(model) == ["edited_model"]
    monkeypatch.setattr(loaded_sources, "process_started", lambda: path.stat().st_ctime + 60)
    assert frames_of(model) == []


def test_of_too_many_files_those_are_kept_that_were_loaded_last(
    folder: Path, model: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert model.__name__ == "edited_model"
    monkeypatch.setattr(loaded_sources, "MAX_FILES", 2)
    # Files with breakpoints of earlier tests count as seen.
    monkeypatch.setattr(loaded_sources, "compiled_sources", {})
    read: list[str] = []
    ended = threading.Event()
    mine = Loaded()

    def note(loaded: Loaded, paths: list[str]) -> None:
        # A thread of an earlier test may still be about to read for another one.
        if loaded is mine:
            read.extend(paths)
            ended.set()

    monkeypatch.setattr(Loaded, "read_all", note)
    mine.read()
    assert ended.wait(seconds(20))
    assert sorted(read) == [str(folder / "edited_model.py"), str(folder / "edited_other.py")]


def frame_in(path: Path, lines: list[str]) -> FrameType:
    """Return the frame of a module that has these lines before and behind the one that takes the frame."""
    path.write_text("\n".join([*lines, "frame = sys._getframe()", *lines]) + "\n")
    names = {"sys": sys}
    exec(compile(path.read_text(), str(path), "exec"), names)  # noqa: S102
    frame = names["frame"]
    assert isinstance(frame, FrameType)
    return frame


def test_the_lines_before_and_behind_are_told_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    frame = frame_in(path, [f"x = {number}" for number in range(2 * SOURCE_LINES)])
    source = source_message(frame, {})
    here = 2 * SOURCE_LINES + 1
    assert frame.f_code.co_filename == str(path)
    # The module has run to its end.
    assert source.where.line == frame.f_lineno == 2 * here - 1
    assert source.first == source.where.line - SOURCE_LINES
    assert source.lines[-1] == path.read_text().splitlines()[-1]
    assert len(source.lines) == SOURCE_LINES + 1


def test_other_breakpoints_are_left_out_and_long_lines_cut(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    frame = frame_in(path, ["x = 1"] * (2 * SOURCE_LINES) + [f"x = '{'y' * 2 * MAX_TEXT}'"])
    last = frame.f_lineno
    breaks = {str(path): [last, 1, last - 1], str(tmp_path / "data.py"): [last]}
    source = source_message(frame, breaks)
    assert source.breakpoints == (last - 1, last)
    assert max(map(len, source.lines)) == MAX_TEXT


def test_without_a_file_there_are_no_lines() -> None:
    names = {"sys": sys}
    exec(compile("frame = sys._getframe()", "<nowhere>", "exec"), names)  # noqa: S102
    frame = names["frame"]
    assert isinstance(frame, FrameType)
    source = source_message(frame, {})
    assert source.where.file == "<nowhere>"
    assert source.lines == ()
