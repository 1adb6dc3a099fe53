"""Modules are changed when they are loaded, a change that fails leaves the import alone, and half a module is none."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import dbg_agent
from dbg_agent.process import imports
from tests.conftest import Approved

PACKAGE = "package_for_late"
MODULE = f"{PACKAGE}.inner"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a package with one module that can be imported."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text(f"from .inner import value\nfrom {MODULE} import value as again\n")
    (folder / "inner.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in (PACKAGE, MODULE):
        sys.modules.pop(name, None)


def set_two(module: ModuleType) -> None:
    vars(module)["value"] = 2


def test_a_module_is_changed_before_anybody_takes_a_name_from_it(package: Path) -> None:
    imports.when_loaded(MODULE, set_two)
    try:
        imported = importlib.import_module(PACKAGE)
    finally:
        imports.forget(MODULE, set_two)
    assert (imported.value, imported.again) == (2, 2)


def test_a_module_whose_import_has_only_begun_is_not_loaded(package: Path) -> None:
    (package / "inner.py").write_text(
        "from dbg_agent.process.imports import loaded\nduring = loaded(__name__)\nvalue = 1\n"
    )
    assert imports.loaded(MODULE) is None
    module = importlib.import_module(MODULE)
    assert module.during is None
    assert imports.loaded(MODULE) is module


def test_no_module_of_ours_is_taken_out_of_sys_modules_before_its_import_has_ended() -> None:
    folder = Path(dbg_agent.__file__).parent
    taken = [str(path) for path in folder.rglob("*.py") if re.search(r'sys\.modules.{1,5}"dbg_', path.read_text())]
    assert taken == []


def test_a_package_itself_can_be_changed_and_has_its_modules(package: Path) -> None:
    imports.when_loaded(PACKAGE, set_two)
    try:
        imported = importlib.import_module(PACKAGE)
    finally:
        imports.forget(PACKAGE, set_two)
    assert (imported.value, imported.inner.value) == (2, 1)


def test_what_is_forgotten_is_not_changed_and_leaves_no_finder(package: Path) -> None:
    before = list(sys.meta_path)
    imports.when_loaded(MODULE, set_two)
    imports.forget(MODULE, set_two)
    imports.forget(MODULE, set_two)
    assert importlib.import_module(MODULE).value == 1
    assert sys.meta_path == before


def test_a_change_that_fails_leaves_the_import_alone(
    approved: Approved, package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(module: ModuleType) -> None:
        raise AttributeError(f"no such thing in {module.__name__}")

    imports.when_loaded(MODULE, fail)
    try:
        assert importlib.import_module(MODULE).value == 1
    finally:
        imports.forget(MODULE, fail)
    approved(capsys.readouterr().err)
