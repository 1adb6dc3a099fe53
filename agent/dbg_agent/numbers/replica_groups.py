"""Groups of ranks that hold replicas of a tensor, found without any collective."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from dbg_agent.numbers.names import ModuleNames
from dbg_agent.numbers.tensors import parameters_of
from dbg_agent.values.tensors import sharded_classes
from dbg_wire.rank_set import format_ranks

MAX_LAYOUTS = 1024
"""Maximum number of placements on a mesh whose ranks are kept. A job has a dozen."""


class Group(NamedTuple):
    """Ranks that hold replicas. With ``is_assumed`` nothing says so, but all ranks may have a tensor of this name."""

    ranks: str
    size: int
    is_assumed: bool = False


class Replica(NamedTuple):
    """A parameter, its name, and the ranks that hold replicas of it, unless its mesh has them."""

    parameter: Any
    name: str
    group: Group | None

    def group_of(self, tensor: Any) -> Group | None:
        """Return the ranks with replicas of the parameter, of its gradient, or of its state in an optimizer."""
        is_known = self.group is not None and not self.group.is_assumed
        return self.group if is_known else group_of(tensor, group_of(self.parameter, self.group))


class KnownReplicas:
    """The parameters of each optimizer. Names and groups are determined once."""

    def __init__(self, names: ModuleNames) -> None:
        self._names = names
        self._known: weakref.WeakKeyDictionary[Any, list[Replica]] = weakref.WeakKeyDictionary()

    def of(self, optimizer: Any) -> tuple[list[Replica], bool]:
        """Return the parameters of an optimizer, and whether they are new."""
        parameters = parameters_of(optimizer)
        known = self._known.get(optimizer, [])
        if list(map(id, parameters)) == [id(one.parameter) for one in known]:
            return known, False
        reduced = dict(pair for root in self._names.roots() for pair in _reduced_in(root))
        self._known[optimizer] = known = [
            Replica(one, self._names.of_parameter(one, f"parameter {index}"), reduced.get(id(one)) or _assumed(one))
            for index, one in enumerate(parameters)
        ]
        return known, True


def group_of(tensor: Any, otherwise: Group | None) -> Group | None:
    """Return the ranks with replicas of a tensor as its mesh has them, ``otherwise`` for a tensor without a mesh."""
    is_sharded = isinstance(tensor, sharded_classes())
    return _of_mesh(tensor.device_mesh, tensor.placements) if is_sharded else otherwise


@lru_cache(MAX_LAYOUTS)
def _of_mesh(mesh: Any, placements: tuple[Any, ...]) -> Group | None:
    """Return the ranks along the dimensions of a mesh in which a tensor is replicated."""
    own = mesh.get_coordinate()
    if own is None:
        return None
    along = (slice(None) if place.is_replicate() else at for place, at in zip(placements, own, strict=True))
    return _group(mesh.mesh[tuple(along)].flatten().tolist())


def world(*, is_assumed: bool = False) -> Group | None:
    """Return all ranks of torch.distributed, None if there is only this one."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return _group(range(distributed.get_world_size()), is_assumed=is_assumed)


def _group(ranks: Iterable[int], *, is_assumed: bool = False) -> Group | None:
    ranks = list(ranks)
    return Group(format_ranks(ranks), len(ranks), is_assumed) if len(ranks) > 1 else None


def _assumed(parameter: Any) -> Group | None:
    """Return all ranks, unless the parameter is marked as sharded or as an expert, as in Megatron and DeepSpeed."""
    is_local = getattr(parameter, "tensor_model_parallel", False) or not getattr(parameter, "allreduce", True)
    return None if is_local else world(is_assumed=True)


def _reduced_in(root: Any) -> Iterator[tuple[int, Group | None]]:
    """Yield the ids of the parameters that DistributedDataParallel reduces, with the ranks of its group."""
    for module in root.modules():
        if type(module).__name__ == "DistributedDataParallel" and hasattr(module, "process_group"):
            group = _group(sys.modules["torch.distributed"].get_process_group_ranks(module.process_group))
            for name, parameter in module.module.named_parameters():
                if name not in module.parameters_to_ignore:
                    yield id(parameter), group
