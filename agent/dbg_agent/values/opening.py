"""How a value is opened into its parts, by its class; no code of the program runs."""

from __future__ import annotations

import operator
import sys
from collections import UserDict, UserList
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from dbg_agent.values.arrays import is_array
from dbg_agent.values.children import VIEWS, container_of, field_names
from dbg_agent.values.describe import beginning_of, describe
from dbg_agent.values.objects import Survey, attributes_of, survey_of
from dbg_agent.values.part import Opened, ShownPart, attribute, call, item, literal_of
from dbg_agent.values.tensors import is_tensor, local_shard, why_unreadable

STATISTICS_SECONDS = 5.0
"""Seconds for the figures of one tensor; its question has a limit of its own."""

TENSOR_ATTRIBUTES = ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf")
ARRAY_ATTRIBUTES = ("shape", "dtype", "nbytes")

MAX_KEY_NAME = 200
"""Characters of the text by which a dict's item is known."""

KEY_SECONDS = 0.2
"""Seconds for the text of one key."""


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
        names: list[Callable[[], ShownPart]] = [
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
            return Opened(names)
        size = int(local.shape[0]) if local.ndim and not why_unreadable(torch, local) else 0

    def row(index: int) -> ShownPart:
        return ShownPart(
            str(index),
            partial(_row, torch, local, index),
            item(own, str(index)),
            partial(_put_row, torch, value, index),
        )

    return Opened(names, size, lambda begin, end: map(row, range(begin, end)), _finder(row, size))


def _finder(row: Callable[[int], ShownPart], size: int) -> Callable[[str], ShownPart | None]:
    def find(name: str) -> ShownPart | None:
        return row(int(name)) if name.isascii() and name.isdecimal() and len(name) < 20 and int(name) < size else None

    return find


def _row(torch: Any, tensor: Any, index: int) -> Any:
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return tensor[index]


def _put_row(torch: Any, tensor: Any, index: int, value: Any) -> None:
    with torch.no_grad():
        tensor[index] = value


def _of_tensor(tensor: Any, name: str, expression: str) -> ShownPart:
    torch: Any = sys.modules["torch"]

    def read() -> Any:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return getattr(tensor, name)

    return ShownPart(name, read, expression)


def _local(local: Any, expression: str) -> ShownPart:
    return ShownPart("_local_tensor", lambda: local, expression)


def _statistics(value: Any) -> ShownPart:
    return ShownPart("statistics", partial(Statistics, value), is_lazy=True)


def _array(value: Any, expression: str) -> Opened:
    numpy: Any = sys.modules["numpy"]
    kind = type(value)
    is_numpys = kind.__module__.partition(".")[0] == "numpy"
    names: list[Callable[[], ShownPart]] = [
        partial(_of_array, value, name, attribute(expression, name)) for name in ARRAY_ATTRIBUTES
    ]
    fields = value.dtype.names
    if issubclass(kind, numpy.generic):
        if fields is None:
            return Opened()
        return Opened([partial(_field, value, name, item(expression, repr(name))) for name in fields])
    if value.dtype.kind in "biufc":
        names.append(partial(_statistics, value))
    rows = value if is_numpys else numpy.asarray(value)
    size = int(value.shape[0]) if value.ndim else 0
    own = expression if is_numpys else ""

    def row(index: int) -> ShownPart:
        return ShownPart(
            str(index), partial(rows.__getitem__, index), item(own, str(index)), partial(rows.__setitem__, index)
        )

    return Opened(names, size, lambda begin, end: map(row, range(begin, end)), _finder(row, size))


def _of_array(array: Any, name: str, expression: str) -> ShownPart:
    return ShownPart(name, partial(getattr, array, name), expression)


def _field(value: Any, name: str, expression: str) -> ShownPart:
    return ShownPart(name, lambda: value[name], expression)


def items_of(value: Any, expression: str) -> Opened | None:
    """Return a container's items; None for a value that is no container."""
    kind = type(value)
    array = getattr(sys.modules.get("array"), "array", None)
    if kind is range or (kind is array and array is not None):
        return _in_order(value, kind, expression)
    if kind in VIEWS:
        return _in_a_row(partial(iter, value), len(value), call("list", expression))
    found = container_of(value)
    # The fields of a named tuple are shown by their names.
    if found is None or field_names(kind) is not None:
        return None
    base, data = found
    own = expression if data is value else attribute(expression, "data")
    if base is dict:
        return _by_key(data, own)
    if base in (set, frozenset):
        listed = own if kind in (set, frozenset) else call(f"{base.__name__}.__iter__", own)
        return _in_a_row(partial(base.__iter__, data), base.__len__(data), call("list", listed))
    return _in_order(data, base, own)


# ------------------------------------------------------------------------------------------------------------- mappings


def _by_key(value: Any, expression: str) -> Opened:
    kind = type(value)
    if kind.__getitem__ is not dict.__getitem__ and not _is_known(kind):
        # The class may make another value of its item.
        indexed: Callable[[str], str] = partial(call, "dict.__getitem__", expression)
    else:
        indexed = partial(item, expression)
    opened = partial(_item_of_mapping, value, indexed)

    def items(begin: int, end: int) -> Iterable[ShownPart]:
        # One call of C code: another thread may change the dict between two.
        return [opened(key) for key in list(islice(dict.keys(value), begin, end))]

    def find(name: str) -> ShownPart | None:
        return next((opened(key) for key in list(dict.keys(value)) if _name_of(key) == name), None)

    return Opened(size=dict.__len__(value), items=items, find_item=find)


def _is_known(kind: type) -> bool:
    return kind.__module__ in ("collections", "builtins")


def _item_of_mapping(value: Any, indexed: Callable[[str], str], key: Any) -> ShownPart:
    return ShownPart(
        _name_of(key),
        partial(dict.__getitem__, value, key),
        indexed(literal_of(key)),
        partial(operator.setitem, value, key),
    )


def _name_of(key: Any) -> str:
    return repr(key) if type(key) is int else beginning_of(key, most=MAX_KEY_NAME, seconds=KEY_SECONDS)


# ------------------------------------------------------------------------------------------------------------ sequences


def _in_order(value: Any, base: Any, expression: str) -> Opened:
    kind = type(value)
    if kind.__getitem__ is base.__getitem__:
        indexed: Callable[[str], str] = partial(item, expression)
    else:
        indexed = partial(call, f"{base.__name__}.__getitem__", expression)
    is_fixed = base in (tuple, range)

    def at(index: int) -> ShownPart:
        write = None if is_fixed else partial(operator.setitem, value, index)
        return ShownPart(str(index), partial(base.__getitem__, value, index), indexed(str(index)), write)

    size: int = base.__len__(value)
    return Opened(
        size=size,
        items=lambda begin, end: (at(index) for index in range(begin, end)),
        find_item=_finder(at, size),
    )


def _in_a_row(iterate: Callable[[], Iterator[Any]], size: int, listed: str) -> Opened:
    """Return items that have no index of their own, in the order in which they come."""

    def items(begin: int, end: int) -> Iterable[ShownPart]:
        found = list(islice(iterate(), begin, end))
        return [ShownPart(str(n), partial(_same, one), item(listed, str(n))) for n, one in enumerate(found, begin)]

    return Opened(
        size=size,
        items=items,
        find_item=_finder(lambda index: next(iter(items(index, index + 1))), size),
    )


def _same(value: Any) -> Any:
    return value


_CLOSED: frozenset[type] = frozenset(
    {int, float, complex, bool, type(None), str, bytes, bytearray, memoryview, type(...), type(NotImplemented)}
)
"""Classes whose values have no parts."""


class LazyPart:
    """Takes the place of a value that is not read before somebody asks for it: it has one part, the value."""

    def __init__(self, part: ShownPart) -> None:
        self.part = part


class Opening:
    """Opens values, and keeps what it has learned of their classes for the length of a stop."""

    def __init__(self) -> None:
        self._surveys: dict[int, tuple[type, Survey]] = {}

    def opened(self, value: Any, expression: str) -> Opened:
        """Return the parts of a value."""
        kind = type(value)
        if kind in _CLOSED:
            return Opened()
        if kind is LazyPart:
            return Opened([lambda: value.part])
        if kind is Statistics:
            return Opened()
        special = tensor_parts(value, expression)
        if special is not None:
            own = self._own_attributes(value, expression)
            return Opened([*special.names, *own], special.size, special.items, special.find_item)
        items = items_of(value, expression)
        names: list[Callable[[], ShownPart]]
        if items is None:
            return Opened(attributes_of(value, expression, self._survey))
        is_plain = kind.__module__ in ("builtins", "collections", "array") and not issubclass(
            kind, (UserDict, UserList)
        )
        names = [] if is_plain else self._own_attributes(value, expression)
        return Opened(names, items.size, items.items, items.find_item)

    def _own_attributes(self, value: Any, expression: str) -> list[Callable[[], ShownPart]]:
        """Return the attributes that the program has given to a value of a class that is known otherwise."""
        survey = self._survey(type(value))
        if survey.dictionary is None:
            return []
        only = Survey(survey.dictionary, {}, (), {}, survey.overriding, survey.is_usual)
        return attributes_of(value, expression, lambda _kind: only)

    def _survey(self, kind: type) -> Survey:
        # A class's own hash may be code of the program, so the class itself can't be the key.
        known = self._surveys.get(id(kind))
        if known is None:
            known = self._surveys[id(kind)] = (kind, survey_of(kind))
        return known[1]
