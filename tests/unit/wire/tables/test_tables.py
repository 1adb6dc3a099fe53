"""Debuggers are named in one place, and each role knows all of them."""

from __future__ import annotations

import ast

import pytest

from dbg_agent.engines.pdb import RankPdb
from dbg_client.words.config import COMMON_NAMES
from dbg_wire.records.ranks import Place
from dbg_wire.tables.collectives import collective_of
from dbg_wire.tables.engines import DEFAULT_ENGINE, ENGINES, LINE_ENGINE, PDB, PUDB
from dbg_wire.tables.system_calls import call_names
from tests.support.packages import parsed

SITE = "/venv/lib/python3.11/site-packages"
C10D = f"{SITE}/torch/distributed/distributed_c10d.py"
STEP = Place(file="/home/me/train.py", line=41, function="step")


def place(file: str, function: str) -> Place:
    return Place(file=file, line=1, function=function)


@pytest.mark.parametrize(
    ("inner", "name"),
    [
        ([place(f"{SITE}/torch/distributed/c10d_logger.py", "wrapper"), place(C10D, "all_reduce")], "all_reduce"),
        ([place(C10D, "all_gather_object"), place(C10D, "all_gather")], "all_gather_object"),
        ([place(f"{SITE}/mpi4py/util/pkl5.py", "allgather")], "allgather"),
        ([place(f"{SITE}/horovod/torch/mpi_ops.py", "synchronize")], "synchronize"),
        ([place(f"{SITE}/torch/distributed/_functional_collectives.py", "wait_tensor")], "wait_tensor"),
        ([place(C10D, "get_rank")], ""),
        ([place("/home/me/mine.py", "all_reduce")], ""),
        ([place(f"{SITE}/torch/nn/functional.py", "scatter")], ""),
        ([], ""),
    ],
)
def test_a_stack_in_a_collective_names_the_operation_that_the_program_called(inner: list[Place], name: str) -> None:
    assert collective_of([STEP, *inner]) == name


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


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_number_has_two_names(machine: str) -> None:
    names = call_names(machine)
    assert len(names) > 50
    assert len(set(names.values())) == len(names)


def test_another_machine_has_none() -> None:
    assert call_names("pdp11") == {}
