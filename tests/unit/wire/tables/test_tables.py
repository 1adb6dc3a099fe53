"""Debuggers are named in one place, and each role knows all of them."""

from __future__ import annotations

import pytest

from dbg_wire.libraries import call_names, collective_of
from dbg_wire.records.ranks import Place

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
        ([place(f"{SITE}/ray/train/v2/api/train_fn_utils.py", "report")], "train.report"),
        ([place(C10D, "get_rank")], ""),
        ([place("/home/me/mine.py", "report")], ""),
        ([place("/home/me/mine.py", "all_reduce")], ""),
        ([place(f"{SITE}/torch/nn/functional.py", "scatter")], ""),
        ([], ""),
    ],
)
def test_a_stack_in_a_collective_names_the_operation_that_the_program_called(inner: list[Place], name: str) -> None:
    assert collective_of([STEP, *inner]) == name


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_number_has_two_names(machine: str) -> None:
    names = call_names(machine)
    assert len(names) > 50
    assert len(set(names.values())) == len(names)
