"""The import of PuDB leaves nothing behind, and loads no large module that the program has not loaded itself."""

from __future__ import annotations

import importlib
import sys
import threading
import warnings
from pathlib import Path

import pytest

from dbg_agent.engines.faults import unwarned
from dbg_agent.engines.pudb_import import doing_without


@pytest.fixture
def heavy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "heavy_module.py").write_text("loaded = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "heavy_module", raising=False)
    return "heavy_module"


def test_what_the_program_has_not_imported_is_done_without(heavy: str) -> None:
    finders = list(sys.meta_path)
    with doing_without([heavy]), pytest.raises(ModuleNotFoundError):
        importlib.import_module(heavy)
    assert sys.meta_path == finders
    assert importlib.import_module(heavy).loaded
    with doing_without([heavy]):
        assert importlib.import_module(heavy).loaded, "it is loaded by now, so it may be used"


def test_other_threads_import_as_always_meanwhile(heavy: str) -> None:
    got: list[object] = []
    with doing_without([heavy]):
        thread = threading.Thread(target=lambda: got.append(importlib.import_module(heavy)))
        thread.start()
        thread.join(10)
    assert len(got) == 1


def test_the_programs_warnings_are_errors_before_and_after_but_not_the_debuggers() -> None:
    before = list(warnings.filters)
    with unwarned():
        warnings.warn_explicit("odd", DeprecationWarning, "x.py", 1, module="urwid.escape")
        with pytest.raises(DeprecationWarning):
            warnings.warn_explicit("odd", DeprecationWarning, "x.py", 1, module="train")
    assert list(warnings.filters) == before
