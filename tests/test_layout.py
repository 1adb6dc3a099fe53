"""Each folder says what belongs in it, and each module has tests of its own or a reason to have none."""

from __future__ import annotations

import ast
import re

import grimp
import pytest

from tests.support.packages import ROOT, Module, modules

UNTESTED = ROOT / "tests/untested_modules.txt"


def is_empty(module: Module) -> bool:
    """Tell whether there is nothing in a module that could be tested: imports and constants at most."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return not any(isinstance(node, kinds) for node in module.tree().body)


def untested() -> dict[str, str]:
    """Return the given reasons, by module."""
    lines = [line for line in UNTESTED.read_text().splitlines() if line and not line.startswith("#")]
    reasons = dict(line.split(": ", 1) for line in lines)
    assert len(reasons) == len(lines)
    assert lines == sorted(lines)
    return reasons


def test_each_folder_says_what_belongs_in_it() -> None:
    folders = [module for module in modules() if module.inside.name == "__init__.py"]
    assert len(folders) > 20
    assert [folder.short for folder in folders if not ast.get_docstring(folder.tree())] == []


def test_each_module_has_tests_of_its_own_or_a_reason() -> None:
    without = {
        module.short
        for module in modules()
        if not module.test.exists() and not (module.inside.name == "__init__.py" and is_empty(module))
    }
    assert without == set(untested())


def test_each_test_that_a_reason_names_exists() -> None:
    there = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    named = {name for reason in untested().values() for name in re.findall(r"\btest_\w+", reason)}
    assert len(named) > 10
    assert named <= there


@pytest.mark.parametrize("package", ["dbg_wire", "dbg_dial", "dbg_agent", "dbg_broker", "dbg_client"])
def test_no_modules_of_a_folder_import_each_other_in_a_circle_but_for_types(package: str) -> None:
    """Hold modules to what import-linter holds folders to; a module may name the class of its neighbour as a type."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=True, cache_dir=None)
    folders = [module for module in graph.modules if graph.find_children(module)]
    assert package in folders
    circles = {folder: graph.nominate_cycle_breakers(folder) for folder in folders}
    assert {folder: found for folder, found in circles.items() if found} == {}
