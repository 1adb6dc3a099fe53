"""The parts of tensors and arrays: shape and type by name, and what lies along the first axis in a row."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from dbg_agent.inspection.expressions import attribute, item
from dbg_agent.inspection.part import Opened, Part
from dbg_agent.values.arrays import is_array
from dbg_agent.values.describe import describe
from dbg_agent.values.tensors import is_tensor, local_shard, why_unreadable

STATISTICS_SECONDS = 5.0
"""Seconds for the figures of one tensor; its question has a limit of its own."""

TENSOR_ATTRIBUTES = ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf")
ARRAY_ATTRIBUTES = ("shape", "dtype", "nbytes")


class Statistics:
    """A tensor's text with figures of its elements, as ``--stats`` gives it."""

    def __init__(self, value: Any) -> None:
        self.text = describe(value, stats=True, seconds=STATISTICS_SECONDS).text


def tensor_parts(value: Any, expression: str) -> Opened | None:
    """Return the parts of a tensor or an array, without the attributes that the program gave it; None for others."""
    kind = type(value)
    if is_tensor(kind):
        return _tensor(value, expression)
    if is_array(kind):
        return _array(value, expression)
    return None


def _tensor(value: Any, expression: str) -> Opened:
    torch: Any = sys.modules["torch"]
    # A class with operations of its own could do anything when the expression is evaluated.
    usual = (torch.Tensor.__torch_function__, torch._C._disabled_torch_function_impl)
    own = expression if type(value).__torch_function__ in usual else ""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        local = local_shard(value)
        names: list[Callable[[], Part]] = [
            partial(_of_tensor, value, name, attribute(own, name)) for name in TENSOR_ATTRIBUTES
        ]
        if value.is_leaf:
            # Reading the gradient of another tensor warns.
            names.append(partial(_of_tensor, value, "grad", attribute(own, "grad")))
        names.append(partial(_of_tensor, value, "grad_fn", attribute(own, "grad_fn")))
        names.append(partial(_statistics, value))
        if local is not value:
            # The rows of the whole would have to be gathered from other ranks.
            names.insert(0, partial(_local, local, attribute(expression, "_local_tensor")))
            return Opened(names, _made)
        size = int(local.shape[0]) if local.ndim and not why_unreadable(torch, local) else 0

    def row(index: int) -> Part:
        return Part(
            str(index),
            partial(_row, torch, local, index),
            item(own, str(index)),
            partial(_put_row, torch, value, index),
        )

    return Opened(names, _made, size, lambda begin, end: map(row, range(begin, end)), _finder(row, size))


def _made(make: Callable[[], Part]) -> Part:
    return make()


def _finder(row: Callable[[int], Part], size: int) -> Callable[[str], Part | None]:
    def find(name: str) -> Part | None:
        return row(int(name)) if name.isascii() and name.isdecimal() and len(name) < 20 and int(name) < size else None

    return find


def _row(torch: Any, tensor: Any, index: int) -> Any:
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return tensor[index]


def _put_row(torch: Any, tensor: Any, index: int, value: Any) -> None:
    with torch.no_grad():
        tensor[index] = value


def _of_tensor(tensor: Any, name: str, expression: str) -> Part:
    torch: Any = sys.modules["torch"]

    def read() -> Any:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return getattr(tensor, name)

    return Part(name, read, expression)


def _local(local: Any, expression: str) -> Part:
    return Part("_local_tensor", lambda: local, expression)


def _statistics(value: Any) -> Part:
    return Part("statistics", partial(Statistics, value), is_lazy=True)


def _array(value: Any, expression: str) -> Opened:
    numpy: Any = sys.modules["numpy"]
    kind = type(value)
    is_numpys = kind.__module__.partition(".")[0] == "numpy"
    names: list[Callable[[], Part]] = [
        partial(_of_array, value, name, attribute(expression, name)) for name in ARRAY_ATTRIBUTES
    ]
    fields = value.dtype.names
    if issubclass(kind, numpy.generic):
        if fields is None:
            return Opened()
        return Opened([partial(_field, value, name, item(expression, repr(name))) for name in fields], _made)
    if value.dtype.kind in "biufc":
        names.append(partial(_statistics, value))
    rows = value if is_numpys else numpy.asarray(value)
    size = int(value.shape[0]) if value.ndim else 0
    own = expression if is_numpys else ""

    def row(index: int) -> Part:
        return Part(
            str(index), partial(rows.__getitem__, index), item(own, str(index)), partial(rows.__setitem__, index)
        )

    return Opened(names, _made, size, lambda begin, end: map(row, range(begin, end)), _finder(row, size))


def _of_array(array: Any, name: str, expression: str) -> Part:
    return Part(name, partial(getattr, array, name), expression)


def _field(value: Any, name: str, expression: str) -> Part:
    return Part(name, lambda: value[name], expression)
