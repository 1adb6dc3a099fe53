"""The tensors in outputs and arguments of modules, and their elements that are not finite."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dbg_agent.values.tensors import local_shard

MAX_DEPTH = 4
"""Maximum depth of nested tuples, lists and mappings in an output that are searched for tensors."""

MAX_TENSORS = 64
"""Maximum number of tensors of one output that are watched, so that a module with a huge output costs little."""


def tensors_in(value: object, depth: int = MAX_DEPTH) -> Iterator[Any]:
    """Yield the tensors in nested tuples, lists and mappings."""
    torch: Any = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (tuple, list)):
        for one in value[:MAX_TENSORS]:
            yield from tensors_in(one, depth - 1)
    elif depth and isinstance(value, Mapping):
        for one in list(value.values())[:MAX_TENSORS]:
            yield from tensors_in(one, depth - 1)


def is_ordinary(tensor: Any) -> bool:
    """Return True if operations on this rank's part of a tensor only compute: no program traces or transforms them."""
    torch: Any = sys.modules["torch"]
    local = local_shard(tensor)
    is_known = type(local).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    is_transformed = torch._C._functorch.is_functorch_wrapped_tensor(local) or torch._C._get_tracing_state()
    return is_known and not (local.is_meta or local.is_quantized or is_transformed)


def floats_of(tensor: Any) -> Any:
    """Return the floating-point elements of this rank's part of a tensor, detached; None if it has none to read.

    There are none in integers, meta tensors, empty tensors, and tensors of unknown classes.
    """
    torch: Any = sys.modules["torch"]
    local = local_shard(tensor)
    if not (is_ordinary(tensor) and (local.is_floating_point() or local.is_complex())):
        return None
    local = local.detach()
    if local.layout is torch.sparse_coo:
        local = local._values()
    elif local.layout is not torch.strided:
        local = local.values()
    if local.element_size() == 1:
        # No reduction is implemented for floats of 8 bits.
        local = local.float()
    if local.numel() == 0:
        return None
    return torch.view_as_real(local.resolve_conj()) if local.is_complex() else local


def parameters_of(optimizer: Any) -> list[Any]:
    """Return the parameters that an optimizer changes."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


@contextmanager
def aside() -> Iterator[None]:
    """Make operations invisible to autograd and to the program's modes of torch."""
    torch: Any = sys.modules["torch"]
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
        yield


def extremes(floats: Any) -> Any:
    """Return minimum and maximum as tensors of 0 dimensions on the same device; both are NaN if an element is NaN."""
    return sys.modules["torch"].aminmax(floats)


def is_finite(tensor: Any) -> bool:
    """Return True if all elements are finite, or can't be read. Waits for the tensor's device."""
    floats = floats_of(tensor)
    return floats is None or are_finite(floats)


def are_finite(floats: Any) -> bool:
    """Return True if all these elements are finite. Waits for their device."""
    # A finite sum has only finite terms, and takes half the time of the extremes. A sum that is not finite proves
    # nothing, because it may overflow.
    return math.isfinite(floats.sum().item()) or all(math.isfinite(one.item()) for one in extremes(floats))


def is_wrong_input(tensor: Any) -> bool:
    """Return True if an argument has NaN or infinity. Negative infinity alone is a mask, and not wrong."""
    floats = floats_of(tensor)
    if floats is None:
        return False
    low, high = (one.item() for one in extremes(floats))
    return not math.isfinite(high) and not (high == low == -math.inf)


def wrong_elements(tensor: Any) -> dict[str, Any]:
    """Return the numbers of NaN and infinities, the number of all elements, and the index of the first wrong one.

    The keys are fields of a WrongNumber. Waits for the tensor's device.
    """
    torch: Any = sys.modules["torch"]
    floats = floats_of(tensor)
    wrong = ~torch.isfinite(floats)
    nans = int(torch.isnan(floats).sum())
    first = torch.unravel_index(wrong.flatten().byte().argmax(), floats.shape)
    infinities = int(wrong.sum()) - nans
    return {"nans": nans, "infinities": infinities, "size": floats.numel(), "first": tuple(map(int, first))}
