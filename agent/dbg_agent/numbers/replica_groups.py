"""Tensors with replicas in other ranks, and the groups of these ranks, found without any collective."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from dbg_agent.numbers.names import ModuleNames
from dbg_agent.numbers.tensors import parameters_of
from dbg_agent.values.tensors import sharded_classes
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.numbers import ReplicaGroup, Suspect
from dbg_wire.records.record import clamp

MAX_LAYOUTS = 1024
"""Maximum number of placements on a mesh whose ranks are kept. A job has a dozen."""


Replica = tuple[Suspect, ReplicaGroup | None, str, Any]
"""Kind of a tensor, the ranks that hold replicas of it, its name, and the tensor, None for a missing gradient."""


def replicas_of(optimizer: Any, names: ModuleNames, world: ReplicaGroup, *, has_state: bool) -> Iterator[Replica]:
    """Yield the parameters of an optimizer, their gradients and, with ``has_state``, optimizer state, and all buffers.

    If nothing says which ranks hold replicas of a tensor, all ranks may do so.
    """
    assumed = world.replace(assumed=True)
    reduced = dict(pair for root in names.roots() for pair in _reduced_in(root))
    for index, one in enumerate(parameters_of(optimizer)):
        name = names.of_parameter(one, f"parameter {index}")
        # Megatron and DeepSpeed mark a parameter that is sharded, or is an expert.
        is_local = getattr(one, "tensor_model_parallel", False) or not getattr(one, "allreduce", True)
        group = _group_of(one, reduced.get(id(one), None if is_local else assumed))
        yield Suspect.PARAMETER, group, name, one
        yield Suspect.GRADIENT, _group_of(one.grad, group), name, one.grad
        for key, value in optimizer.state.get(one, {}).items() if has_state else ():
            if isinstance(value, sys.modules["torch"].Tensor):
                yield Suspect.STATE, _group_of(value, group), f"{name}.{key}", value
    for name, buffer in names.buffers():
        # The running statistics of a norm describe a rank's own batches.
        if buffer.is_floating_point() and not name.rpartition(".")[2].startswith("running_"):
            yield Suspect.BUFFER, _group_of(buffer, assumed), name, buffer


def world() -> ReplicaGroup | None:
    """Return all ranks of torch.distributed, None if there is only this one."""
    distributed: Any = sys.modules["torch"].distributed
    is_used = distributed.is_available() and distributed.is_initialized()
    return _group(range(distributed.get_world_size())) if is_used else None


def _group(ranks: Sequence[int]) -> ReplicaGroup | None:
    return clamp(ReplicaGroup, ranks=format_ranks(ranks), size=len(ranks)) if len(ranks) > 1 else None


def _group_of(tensor: Any, otherwise: ReplicaGroup | None) -> ReplicaGroup | None:
    """Return the ranks with replicas of a tensor as its mesh has them, ``otherwise`` for a tensor without a mesh."""
    is_sharded = isinstance(tensor, sharded_classes())
    return _of_mesh(tensor.device_mesh, tensor.placements) if is_sharded else otherwise


@lru_cache(MAX_LAYOUTS)
def _of_mesh(mesh: Any, placements: tuple[Any, ...]) -> ReplicaGroup | None:
    """Return the ranks along the dimensions of a mesh in which a tensor is replicated."""
    own = mesh.get_coordinate()
    if own is None:
        return None
    along = (slice(None) if place.is_replicate() else at for place, at in zip(placements, own, strict=True))
    return _group(mesh.mesh[tuple(along)].flatten().tolist())


def _reduced_in(root: Any) -> Iterator[tuple[int, ReplicaGroup | None]]:
    """Yield the ids of the parameters that DistributedDataParallel reduces, with the ranks of its group."""
    torch: Any = sys.modules["torch"]
    for module in root.modules():
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            group = _group(torch.distributed.get_process_group_ranks(module.process_group))
            for name, parameter in module.module.named_parameters():
                if name not in module.parameters_to_ignore:
                    yield id(parameter), group
