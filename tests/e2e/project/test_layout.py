"""Each folder says what belongs in it; classes stay narrow, and imports make no circle."""

from __future__ import annotations

import ast

import grimp
import pytest

from tests.support.packages import modules

MAX_FIELDS = 15
"""Fields and attributes of one class: what belongs together is a class of its own."""

MAX_SETTINGS = 25
"""Fields of a record of settings, which is made in one place and read one by one."""


def test_each_folder_says_what_belongs_in_it() -> None:
    folders = [module for module in modules() if module.inside.name == "__init__.py"]
    assert len(folders) > 20
    assert [folder.short for folder in folders if not ast.get_docstring(folder.tree())] == []


def fields(of: ast.ClassDef) -> set[str]:
    """Return the names that the body of a class declares with a type, or that its methods give to ``self``."""
    declared = {
        node.target.id for node in of.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    stored = {
        node.attr
        for method in of.body
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return declared | stored


def test_no_class_is_wide() -> None:
    widths = {
        f"{module.short}:{node.name}": len(fields(node))
        for module in modules()
        for node in ast.walk(module.tree())
        if isinstance(node, ast.ClassDef)
    }
    assert len(widths) > 500
    most = {name: MAX_SETTINGS if name.endswith("Settings") else MAX_FIELDS for name in widths}
    assert {name: width for name, width in widths.items() if width > most[name]} == {}


@pytest.mark.parametrize("package", ["dbg_wire", "dbg_dial", "dbg_agent", "dbg_broker", "dbg_client"])
def test_no_modules_of_a_folder_import_each_other_in_a_circle_but_for_types(package: str) -> None:
    """Hold modules to what import-linter holds folders to; a module may name the class of its neighbour as a type."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=True, cache_dir=None)
    folders = [module for module in graph.modules if graph.find_children(module)]
    assert package in folders
    circles = {folder: graph.nominate_cycle_breakers(folder) for folder in folders}
    assert {folder: found for folder, found in circles.items() if found} == {}
