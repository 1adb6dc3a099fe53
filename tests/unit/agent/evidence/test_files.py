"""Digests of the loaded files, which may have been edited since, and of the installed packages."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.evidence import code
from dbg_agent.evidence.code import CHANGED, EDITED, CodeFiles, code_parts, code_seen, packages, short_name
from dbg_wire.records.evidence import CodeKind

NAME = "a_module_of_the_user"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "WAIT_SECONDS", 60.0)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Load a module of the user's own, whose file is older than this process."""
    path = tmp_path / f"{NAME}.py"
    path.write_text("def work():\n    return 1\n")
    made = ModuleType(NAME)
    made.__file__ = str(path)
    exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(made))  # noqa: S102 - as an import does
    monkeypatch.setitem(sys.modules, NAME, made)
    return path


def told(reader: CodeFiles) -> str:
    read = reader.read()
    assert read is not None
    return read[0][f"{NAME}.py"]


def older(reader: CodeFiles) -> CodeFiles:
    """Return a reader of a process that has begun long after all files were written."""
    reader._started = 2.0**40
    return reader


def test_a_file_is_told_by_its_content(module: Path) -> None:
    first = told(older(CodeFiles()))
    assert len(first) == 16
    module.write_text("def work():\n    return 2\n")
    assert told(older(CodeFiles())) != first


def test_a_file_that_was_edited_since_says_so(module: Path) -> None:
    reader = CodeFiles()
    reader._started = 0.0
    assert EDITED not in told(reader)
    module.write_text("def work():\n    return 1  # a comment\n\n\ndef more():\n    return 3\n")
    assert EDITED not in told(reader)
    module.write_text("def work():\n    return 22\n")
    assert told(reader).endswith(f" ({EDITED})")


def test_a_file_that_is_too_long_to_compile_has_changed(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "MAX_COMPILED", 3)
    reader = CodeFiles()
    reader._started = 0.0
    assert told(reader).endswith(f" ({CHANGED})")


def test_a_file_is_read_once(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = older(CodeFiles())
    first = told(reader)
    monkeypatch.setattr(code, "read_file", lambda _path, _most: (b"another content", None))
    assert told(reader) == first


def test_a_file_that_is_gone_is_told(module: Path) -> None:
    module.unlink()
    assert told(CodeFiles()) == "is gone"


def test_a_file_system_that_hangs_holds_up_nobody(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going, reads = threading.Event(), threading.Semaphore(0)

    def hangs(_path: str, _most: int) -> None:
        reads.release()
        going.wait()

    monkeypatch.setattr(code, "read_file", hangs)
    monkeypatch.setattr(code, "WAIT_SECONDS", 0.01)
    reader = CodeFiles()
    assert reader.read() == ({}, {})
    assert reads.acquire(timeout=30)
    # The thread that hangs stays the only one.
    assert reader.read() == ({}, {})
    assert not reads.acquire(blocking=False)
    going.set()
    monkeypatch.setattr(code, "WAIT_SECONDS", 60.0)
    assert reader.read() != ({}, {})


def test_a_pipe_in_a_modules_place_holds_up_nobody(module: Path) -> None:
    module.unlink()
    os.mkfifo(module)
    assert told(older(CodeFiles()))


def test_names_are_equal_on_hosts_with_other_folders() -> None:
    assert short_name("__main__", "/scratch/1/train.py") == "train.py"
    assert short_name("model.layers", "/a/b/model/layers.py") == "model/layers.py"
    assert short_name("model", "/a/b/model/__init__.py") == "model/__init__.py"


@given(st.text(min_size=1), st.text())
def test_any_name_is_shortened(module: str, path: str) -> None:
    assert path.endswith(short_name(module, path))


def test_the_first_package_of_a_path_counts(tmp_path: Path) -> None:
    for folder, name in (
        ("a", "Some_Package-1.2.dist-info"),
        ("b", "some.package-2.0.dist-info"),
        ("b", "x-3.egg-info"),
    ):
        (tmp_path / folder / name).mkdir(parents=True)
    path = [str(tmp_path / "missing"), str(tmp_path / "a"), str(tmp_path / "b"), "", "\0"]
    assert {"some-package": "1.2", "x": "3"}.items() <= packages(path).items()


def test_parts_stand_behind_the_digests(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    before = code_seen()
    parts = {(part.kind, part.name): part.value for part in code_parts()}
    assert parts[CodeKind.VARIABLE, "NCCL_DEBUG"] == "INFO"
    assert parts[CodeKind.PACKAGE, "pytest"] == pytest.__version__
    assert (CodeKind.FILE, f"{NAME}.py") in parts
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    after = code_seen()
    assert (after.files, after.packages) == (before.files, before.packages)
    assert after.environment != before.environment
