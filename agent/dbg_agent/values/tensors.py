"""The description of a torch tensor, and the digest of its content in this rank, made without any collective.

Torch is never imported here: a tensor exists only if the program has imported torch. Elements are compared by their
bytes: a NaN equals the same NaN, and -0.0 is not 0.0.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dbg_agent.values.arrays import BLOCK_BYTES, SHOWN_ELEMENTS, blocks, shape_text

if TYPE_CHECKING:
    from dbg_agent.values.record import DigestBudget, ValueRecord

COPYING_DEVICES = frozenset({"cpu", "cuda", "mps", "npu", "xpu"})
"""Devices from which a tensor is copied without running other operations. Other devices, such as xla, would first run
the pending operations, which may wait for other ranks."""

NO_ELEMENTS = "a meta tensor has no elements"
"""Reason for not comparing a meta tensor."""

STREAM_PAUSE = 0.001
"""Time in seconds between two checks whether a stream is done. No framework can wait for a stream with a time limit."""

SHARDED_MODULES = ("torch.distributed.tensor", "torch.distributed._tensor")
"""The module that defines torch's class DTensor: the first name since torch 2.5, the second name before."""


def is_tensor(kind: type) -> bool:
    """Return True if a class is one of torch's tensors."""
    base = getattr(sys.modules.get("torch"), "Tensor", None)
    return base is not None and issubclass(kind, base)


def write_tensor(record: ValueRecord, tensor: Any) -> None:
    """Add the type and shape of a tensor to text and fingerprint, then its content if that can be read."""
    torch: Any = sys.modules["torch"]
    # The program may be inside one of torch's modes that intercept operations, or the tensor's class may override them.
    # Neither must notice the operations here, and autograd must not record them.
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
        local = local_shard(tensor)
        _write_outside(record, tensor, local)
        reason = why_unreadable(torch, local)
        if reason:
            record.effort.stop_digest(reason)
            return
        data = local.detach()
        record.attempt(lambda: _write_content(record, torch, data))


def local_shard(tensor: Any) -> Any:
    """Return the part of a tensor in this rank; read from an attribute, because a DTensor's methods may communicate."""
    return tensor._local_tensor if issubclass(type(tensor), sharded_classes()) else tensor


def sharded_classes() -> tuple[type, ...]:
    """Return torch's classes of sharded tensors; none if no module has imported them."""
    modules = [sys.modules[name] for name in SHARDED_MODULES if name in sys.modules]
    return tuple([one.DTensor for one in modules if hasattr(one, "DTensor")])


def _write_outside(record: ValueRecord, tensor: Any, local: Any) -> None:
    kind = type(tensor)
    name = "tensor" if kind.__name__ == "Tensor" else kind.__name__
    shape = shape_text(tensor.shape)
    dtype = str(tensor.dtype).removeprefix("torch.")
    if local is not tensor:
        shape = f"local {shape_text(local.shape)} of {shape} {' '.join(map(repr, tensor.placements))}"
    tail = " requires_grad" if tensor.requires_grad else ""
    device = local.device
    record.text.write(f"{name} {shape} {dtype} {device}{tail}")
    # The fingerprint contains no device number: each rank has its own device, so equal values would seem different.
    record.fingerprint.feed_text("tensor", f"{name} {shape} {dtype} {device.type}{tail}")


def why_unreadable(torch: Any, tensor: Any) -> str:
    """Return why the elements of a tensor can't be read, or ""."""
    kind = type(tensor)
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return f"{kind.__name__} stores its elements in its own way"
    if tensor.device.type == "meta":
        return NO_ELEMENTS
    if tensor.device.type not in COPYING_DEVICES:
        return f"copying from {tensor.device.type} may wait for other ranks"
    if tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided:
        return "the tensor is nested, quantized or sparse"
    if tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return "a CUDA graph is being captured, and a copy would break it"
    return "" if _is_stored(tensor) else "the storage of the tensor is freed"


def _is_stored(tensor: Any) -> bool:
    """Return True if a tensor's storage holds all of its elements.

    Libraries that shard parameters free the storages of tensors, but keep the tensors.
    """
    if tensor.numel() == 0:
        return True
    last = tensor.storage_offset() + sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    needed: int = (last + 1) * tensor.element_size()
    return bool(needed <= tensor.untyped_storage().nbytes() and tensor.data_ptr() != 0)


def _write_content(record: ValueRecord, torch: Any, tensor: Any) -> None:
    small = tensor.numel() <= SHOWN_ELEMENTS
    # Without a digest, only the text needs the content, and the text shows the elements of small tensors only.
    if record.effort.reason and not small:
        return
    record.effort.count(tensor.numel() * tensor.element_size())
    if not (record.compares or small):
        return
    for block in _on_cpu(record.effort, torch, tensor):
        size = block.numel() * block.element_size()
        if size:
            record.fingerprint.feed(ctypes.string_at(block.data_ptr(), size))
        if small:
            record.text.write(f": {_literal(block.tolist(), tensor.element_size())}")


def _on_cpu(effort: DigestBudget, torch: Any, tensor: Any) -> Iterator[Any]:
    """Copy a tensor block by block."""
    for block in blocks(tensor, BLOCK_BYTES // tensor.element_size()):
        effort.check()
        wait_for_stream(effort, torch, tensor.device)
        yield block.to("cpu").contiguous().resolve_conj().resolve_neg()


def wait_for_stream(effort: DigestBudget, torch: Any, device: Any) -> None:
    """Wait until the device's stream is done, because a copy would wait, too. Raise OutOfTime if that takes too long.

    A collective on the stream may be stuck.
    """
    current = getattr(getattr(torch, device.type, None), "current_stream", None)
    if device.type == "cpu" or current is None:
        return
    stream = current(device)
    while not stream.query():
        effort.check()
        time.sleep(STREAM_PAUSE)


def _literal(value: object, size: int) -> str:
    """Return the literal of a number or nested lists, with no more digits than a float of ``size`` bytes keeps."""
    if isinstance(value, list):
        return f"[{', '.join(_literal(element, size) for element in value)}]"
    return repr(float(f"{value:.7g}")) if isinstance(value, float) and size < 8 else repr(value)
