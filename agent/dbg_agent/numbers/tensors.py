"""The tensors and arrays in outputs, arguments and values, and their elements that are not finite."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from dbg_agent.values.tensors import local_shard

MAX_DEPTH = 8
"""Maximum depth of nested tuples, lists and mappings that are searched for tensors."""

MAX_PARTS = 4096
"""Maximum number of parts of a tuple, list or mapping that are searched, so that a huge output costs little."""


def tensors_in(value: object) -> Iterator[Any]:
    """Yield the tensors in nested tuples, lists and mappings."""
    return (one for _, one in _parts_of(value) if isinstance(one, sys.modules["torch"].Tensor))


def _parts_of(value: Any, name: str = "", depth: int = MAX_DEPTH) -> Iterator[tuple[str, Any]]:
    """Yield a value with its name, or the innermost parts of nested tuples, lists and mappings with their names."""
    if not isinstance(value, (tuple, list, Mapping)):
        yield name, value
        return
    parts = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, one in islice(parts, MAX_PARTS if depth else 0):
        yield from _parts_of(one, f"{name}[{key!r}]", depth - 1)


def is_ordinary(local: Any) -> bool:
    """Return True if operations on a tensor that is no DTensor only compute: no program traces or transforms them."""
    torch: Any = sys.modules["torch"]
    is_known = type(local).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    is_transformed = torch._C._functorch.is_functorch_wrapped_tensor(local) or torch._C._get_tracing_state()
    return is_known and not (local.is_meta or local.is_quantized or is_transformed)


def floats_of(tensor: Any) -> Any:
    """Return the floating-point elements of this rank's part of a tensor, detached; None if it has none to read.

    There are none in integers, meta tensors, empty tensors, and tensors of unknown classes.
    """
    torch: Any = sys.modules["torch"]
    local = local_shard(tensor)
    if not (is_ordinary(local) and (local.is_floating_point() or local.is_complex())):
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


def wrong_value(value: object, name: str) -> dict[str, Any] | None:
    """Return name and facts of the first wrong tensor, array or number in a value, or None; see :func:`wrong_elements`.

    An array of JAX is read as far as its shards are in this process. Waits for the device.
    """
    for path, part in _parts_of(value, name):
        if "torch" in sys.modules and isinstance(part, sys.modules["torch"].Tensor):
            with aside():
                if not is_finite(part):
                    return wrong_elements(sys.modules["torch"], floats_of(part)) | {"name": path}
            continue
        import numpy

        for one in [shard.data for shard in getattr(part, "addressable_shards", ())] or [part]:
            # A text or another object is no number.
            with suppress(TypeError):
                array = numpy.asarray(one)
                if not numpy.isfinite(array).all():
                    return wrong_elements(numpy, array) | {"name": path}
    return None


def wrong_elements(library: Any, floats: Any) -> dict[str, Any]:
    """Return the numbers of NaN and infinities, the number of all elements, and the index of the first wrong one.

    The keys are fields of a WrongNumber. ``library`` is torch or numpy. Waits for the device.
    """
    wrong = ~library.isfinite(floats)
    nans = int(library.isnan(floats).sum())
    first = library.unravel_index(wrong.reshape(-1).view(library.uint8).argmax(), floats.shape)
    size, infinities = math.prod(floats.shape), int(wrong.sum()) - nans
    return {"nans": nans, "infinities": infinities, "size": size, "first": tuple(map(int, first))}
