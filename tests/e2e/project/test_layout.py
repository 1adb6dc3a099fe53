"""Each folder has a docstring, and imports make no circle."""

from __future__ import annotations

import ast

import grimp
import pytest

from tests.support.packages import modules


def test_each_folder_has_a_docstring() -> None:
    folders = [module for module in modules() if module.inside.name == "__init__.py"]
    assert len(folders) > 20
    assert [folder.short for folder in folders if not ast.get_docstring(folder.tree())] == []


@pytest.mark.parametrize("package", ["dbg_wire", "dbg_dial", "dbg_command", "dbg_agent", "dbg_broker", "dbg_client"])
def test_modules_of_a_folder_do_not_import_each_other_in_a_circle_except_for_types(package: str) -> None:
    """Hold modules to what import-linter holds folders to; a module may name the class of its neighbour as a type."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=True, cache_dir=None)
    folders = [module for module in graph.modules if graph.find_children(module)]
    assert package in folders
    circles = {folder: graph.nominate_cycle_breakers(folder) for folder in folders}
    assert {folder: found for folder, found in circles.items() if found} == {}
