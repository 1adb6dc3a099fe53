"""The items of containers, and of values that are containers by their class."""

from __future__ import annotations

import operator
import sys
from collections import UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from dbg_agent.inspection.expressions import attribute, call, item, literal_of
from dbg_agent.inspection.part import Opened, Part
from dbg_agent.values.beginning import beginning_of

MAX_KEY_NAME = 200
"""Characters of the text by which a dict's item is known."""

KEY_SECONDS = 0.2
"""Seconds for the text of one key."""

_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))


def items_of(value: Any, expression: str) -> Opened | None:
    """Return a container's items; None for a value that is no container."""
    kind = type(value)
    if issubclass(kind, dict):
        return _mapping(value, expression)
    if issubclass(kind, UserDict) and type(value.data) is dict:
        return _mapping(value.data, attribute(expression, "data"))
    if issubclass(kind, UserList) and type(value.data) is list:
        return _sequence(value.data, list, attribute(expression, "data"))
    if issubclass(kind, (set, frozenset)):
        base: Any = set if issubclass(kind, set) else frozenset
        listed = expression if kind in (set, frozenset) else call(f"{base.__name__}.__iter__", expression)
        return _in_a_row(partial(base.__iter__, value), base.__len__(value), call("list", listed))
    if kind in _VIEWS:
        return _in_a_row(partial(iter, value), len(value), call("list", expression))
    sequence = _base_of(kind)
    return _sequence(value, sequence, expression) if sequence is not None else None


def _base_of(kind: type) -> type | None:
    array = getattr(sys.modules.get("array"), "array", None)
    if issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        # The fields of a named tuple are shown by their names.
        return None
    if kind is array or kind is range:
        return kind
    return next((base for base in (list, tuple, deque) if issubclass(kind, base)), None)


# ------------------------------------------------------------------------------------------------------------- mappings


def _mapping(value: Any, expression: str) -> Opened:
    kind = type(value)
    if kind.__getitem__ is not dict.__getitem__ and not _is_known(kind):
        # The class may make another value of its item.
        indexed: Callable[[str], str] = partial(call, "dict.__getitem__", expression)
    else:
        indexed = partial(item, expression)
    opened = partial(_item_of_mapping, value, indexed)

    def items(begin: int, end: int) -> Iterable[Part]:
        # One call of C code: another thread may change the dict between two.
        return [opened(key) for key in list(islice(dict.keys(value), begin, end))]

    def find(name: str) -> Part | None:
        return next((opened(key) for key in list(dict.keys(value)) if _name_of(key) == name), None)

    return Opened(size=dict.__len__(value), items=items, find_item=find)


def _is_known(kind: type) -> bool:
    return kind.__module__ in ("collections", "builtins")


def _item_of_mapping(value: Any, indexed: Callable[[str], str], key: Any) -> Part:
    return Part(
        _name_of(key),
        partial(dict.__getitem__, value, key),
        indexed(literal_of(key)),
        partial(operator.setitem, value, key),
    )


def _name_of(key: Any) -> str:
    return repr(key) if type(key) is int else beginning_of(key, most=MAX_KEY_NAME, seconds=KEY_SECONDS)


# ------------------------------------------------------------------------------------------------------------ sequences


def _sequence(value: Any, base: Any, expression: str) -> Opened:
    kind = type(value)
    if kind.__getitem__ is base.__getitem__:
        indexed: Callable[[str], str] = partial(item, expression)
    else:
        indexed = partial(call, f"{base.__name__}.__getitem__", expression)
    is_fixed = base in (tuple, range)

    def at(index: int) -> Part:
        write = None if is_fixed else partial(operator.setitem, value, index)
        return Part(str(index), partial(base.__getitem__, value, index), indexed(str(index)), write)

    size: int = base.__len__(value)
    return Opened(
        size=size,
        items=lambda begin, end: (at(index) for index in range(begin, end)),
        find_item=lambda name: at(int(name)) if _is_index(name, size) else None,
    )


def _in_a_row(iterate: Callable[[], Iterator[Any]], size: int, listed: str) -> Opened:
    """Return items that have no index of their own, in the order in which they come."""

    def items(begin: int, end: int) -> Iterable[Part]:
        found = list(islice(iterate(), begin, end))
        return [Part(str(n), partial(_same, one), item(listed, str(n))) for n, one in enumerate(found, begin)]

    return Opened(
        size=size,
        items=items,
        find_item=lambda name: next(iter(items(int(name), int(name) + 1))) if _is_index(name, size) else None,
    )


def _is_index(name: str, size: int) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 20 and int(name) < size


def _same(value: Any) -> Any:
    return value
