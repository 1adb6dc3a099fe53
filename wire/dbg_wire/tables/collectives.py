"""Which collective operation a stack is in, by the functions of the libraries that have collectives.

A library that has no Python function for an operation, as mpi4py for most, does not show it on a stack.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbg_wire.records.ranks import Place

_MODULES = (
    "/torch/distributed/distributed_c10d.py",
    "/torch/distributed/_functional_collectives.py",
    "/torch/distributed/nn/functional.py",
    "/deepspeed/comm/comm.py",
    "/deepspeed/comm/torch.py",
    "/horovod/torch/mpi_ops.py",
    "/horovod/torch/functions.py",
    "/mpi4py/util/pkl5.py",
)
"""Ends of the paths of modules whose functions below are collectives."""

_TORCH = frozenset(
    {
        *("all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_tensor"),
        *("all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "broadcast"),
        *("broadcast_object_list", "gather", "gather_object", "init_process_group", "monitored_barrier", "new_group"),
        *("reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list", "wait_tensor"),
        *("all_gather_single", "reduce_scatter_single", "all_gather_into_tensor_coalesced"),
        *("all_gather_single_coalesced", "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced"),
        *("recv", "send", "recv_object_list", "send_object_list", "batch_isend_irecv"),
    }
)
"""Functions of torch, most of which DeepSpeed has under the same names."""

_HOROVOD = frozenset(
    {
        *("allgather", "allgather_object", "allreduce", "alltoall", "barrier", "broadcast_object", "grouped_allreduce"),
        *("broadcast_parameters", "broadcast_optimizer_state", "join", "reducescatter", "synchronize"),
    }
)

_MPI = frozenset({"bcast", "gather", "scatter", "allgather", "alltoall", "send", "recv", "sendrecv", "ssend"})

_NAMES = _TORCH | _HOROVOD | _MPI

SYNCHRONOUS = frozenset(
    {
        *("all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_into_tensor_coalesced"),
        *("all_gather_single", "all_gather_single_coalesced", "all_reduce", "all_reduce_coalesced", "all_to_all"),
        *("all_to_all_single", "barrier", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor"),
        *("reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced", "allgather_into_tensor_coalesced"),
    }
)
"""Recorded collectives that nobody leaves before all have come; of the others a few ranks wait alone."""

_RAY_TRAIN = ("/ray/train/v2/api/train_fn_utils.py", "/ray/train/_internal/session.py")
"""Ends of the paths of modules whose function ``report`` waits for all workers."""


def collective_of(frames: Sequence[Place]) -> str:
    """Return the name of the outermost collective function on a stack, outermost frame first; empty without one."""
    return next(filter(None, map(_collective, frames)), "")


def _collective(place: Place) -> str:
    # An installed package may lie in any folder, but its modules keep their names in it.
    if place.function in _NAMES and place.file.endswith(_MODULES):
        return place.function
    return "train.report" if place.function == "report" and place.file.endswith(_RAY_TRAIN) else ""
