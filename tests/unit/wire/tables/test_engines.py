"""Debuggers are named in one place, and each role knows all of them."""

from __future__ import annotations

import ast

from dbg_agent.engines.pdb import RankPdb
from dbg_client.words.config import COMMON_NAMES
from dbg_wire.tables.engines import DEFAULT_ENGINE, ENGINES, LINE_ENGINE, PDB, PUDB
from tests.support.packages import parsed


def test_the_default_comes_first_and_one_is_spoken_to_in_lines() -> None:
    assert ENGINES[0] == DEFAULT_ENGINE == PUDB
    assert LINE_ENGINE in ENGINES


def test_each_role_knows_all_of_them() -> None:
    assert tuple(COMMON_NAMES) == ENGINES
    assert RankPdb.name == PDB


def test_no_other_module_lists_them() -> None:
    listing = []
    for module, tree in parsed(LINE_ENGINE):
        for node in ast.walk(tree):
            if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)) and {*ENGINES} <= {
                child.value for child in ast.iter_child_nodes(node) if isinstance(child, ast.Constant)
            }:
                listing.append(module.place)
    assert listing == []
