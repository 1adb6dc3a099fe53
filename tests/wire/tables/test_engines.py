"""Debuggers are named in one place, and each role knows all of them."""

from __future__ import annotations

import ast
from pathlib import Path

from dbg_agent.engines.pdb import RankPdb
from dbg_client.words.config import COMMON_NAMES
from dbg_wire.tables.engines import DEFAULT_ENGINE, ENGINES, LINE_ENGINE, PDB, PUDB

ROOT = Path(__file__).parents[3]


def test_the_default_comes_first_and_one_is_spoken_to_in_lines() -> None:
    assert ENGINES[0] == DEFAULT_ENGINE == PUDB
    assert LINE_ENGINE in ENGINES


def test_each_role_knows_all_of_them() -> None:
    assert tuple(COMMON_NAMES) == ENGINES
    assert RankPdb.name == PDB


def test_no_other_module_lists_them() -> None:
    listing = []
    for package in ("agent/dbg_agent", "broker/dbg_broker", "client/dbg_client", "wire/dbg_dial"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)) and {*ENGINES} <= {
                    child.value for child in ast.iter_child_nodes(node) if isinstance(child, ast.Constant)
                }:
                    listing.append(str(path.relative_to(ROOT)))
    assert listing == []
