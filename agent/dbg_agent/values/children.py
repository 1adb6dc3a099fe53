"""The children of a value, by its class: elements, fields, attributes.

Text, digests, the comparison of ranks and the tree of an IDE all use this module. The only code of the program that may
run is a ``data`` property of a class derived from UserDict or UserList.
"""

from __future__ import annotations

import math
import operator
import struct
import sys
from collections import UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple
from weakref import ReferenceType

from dbg_agent.frames.variables import attribute, attributes, class_dict, has_method, mro_of
from dbg_agent.values.arrays import is_array
from dbg_agent.values.tensors import is_tensor, local_shard, why_unreadable

VIEWS: frozenset[type] = frozenset({type({}.keys()), type({}.values()), type({}.items())})

_CONTAINERS: tuple[Any, ...] = (dict, set, frozenset, tuple, list, deque)
"""Classes of containers. The elements of a derived class are read by the methods of the class in this list, even if the
derived class overrides them."""

_WRAPPERS: tuple[tuple[type, Any], ...] = ((UserDict, dict), (UserList, list))
"""Classes that keep their elements in a separate container."""

_IMMUTABLE = 1 << 8
"""The bit in a class's ``__flags__`` that only classes written in C have."""


class Container(NamedTuple):
    """The elements of a value: ``data`` is the value or the container that it wraps.

    ``base`` is the class whose methods read ``data``.
    """

    base: Any
    data: Any


module_of = type.__dict__["__module__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__


def name_of(kind: type) -> str:
    """Return the short name of a class."""
    return str(_qualname_of(kind)).rpartition(".")[2]


def full_name_of(kind: type) -> str:
    """Return the name of a class with its module, without the module for Python's builtins."""
    module, name = str(module_of(kind)), str(_qualname_of(kind))
    return name if module == "builtins" else f"{module}.{name}"


def is_container(kind: type) -> bool:
    """Return True if values of a class have elements."""
    return issubclass(kind, (*_CONTAINERS, UserDict, UserList))


def container_of(value: Any) -> Container | None:
    """Return the elements of a value; None if it has none, or if it is a UserDict or UserList with unusual ``data``."""
    kind = type(value)
    # isinstance() would ask the value for its class, and a proxy would answer with the class of its target.
    for base in _CONTAINERS:
        if issubclass(kind, base):
            return Container(base, value)
    for wrapper, base in _WRAPPERS:
        if issubclass(kind, wrapper):
            data = value.data
            return Container(base, data) if type(data) is base else None
    return None


def field_names(kind: type) -> tuple[str, ...] | None:
    """Return the names of the fields of a class of named tuples; None for another class."""
    names = getattr(kind, "_fields", None) if issubclass(kind, tuple) else None
    return names if isinstance(names, tuple) else None


def _inside_code(code: CodeType) -> Sequence[object]:
    return code.co_name, code.co_code, code.co_names, code.co_consts


def _inside_function(function: FunctionType) -> Sequence[object]:
    return function.__code__, function.__defaults__, function.__kwdefaults__, function.__closure__


def _inside_cell(cell: CellType) -> Sequence[object]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()  # the cell's variable has no value yet


INSIDE: dict[type, Callable[[Any], Sequence[object]]] = {
    FunctionType: _inside_function,
    CodeType: _inside_code,
    CellType: _inside_cell,
    MethodType: lambda method: (method.__func__, method.__self__),
    BuiltinMethodType: lambda method: (method.__self__,),
    MethodWrapperType: lambda method: (method.__self__,),
    partial: lambda made: (made.func, made.args, made.keywords),
    MappingProxyType: lambda proxy: (dict(proxy),),
    slice: lambda taken: (taken.start, taken.stop, taken.step),
    ReferenceType: lambda reference: (reference(),),
}
"""For each class, a function that returns the parts of an object, which are read in addition to the object's
attributes. The object's repr may omit some of these parts."""


def attributes_of(value: object) -> dict[str, object]:
    """Return the attributes in an object's ``__dict__`` and slots, without running code of its class."""
    found: dict[str, object] = {name: slot.__get__(value) for name, slot in _slots_of(value).items()}
    found.update((name, inner) for name, inner in list(attributes(value).items()) if type(name) is str)
    return found


def _slots_of(value: object) -> dict[str, Any]:
    """Return the slots of an object that are set, by name."""
    found: dict[str, Any] = {}
    for one in mro_of(type(value)):
        for name, slot in class_dict(one).items():
            if type(slot) is MemberDescriptorType and not name.startswith("__"):
                with suppress(AttributeError):
                    slot.__get__(value)
                    found.setdefault(name, slot)
    return found


def has_default_repr(kind: type) -> bool:
    """Return True if a class has the repr of ``object``, which shows only the class and an address."""
    own: object = kind.__repr__
    return own is object.__repr__


def torch_module() -> type | None:
    """Return torch's class of modules; None if the program has not loaded it."""
    found = getattr(sys.modules.get("torch.nn.modules.module"), "Module", None)
    return found if isinstance(found, type) else None


def hides_content(kind: type) -> bool:
    """Return True if the repr of a class shows nothing of its objects' values: the default one, or a torch module's."""
    return has_default_repr(kind) or _is_torch_module(kind)


def has_hidden_state(kind: type) -> bool:
    """Return True if objects of a class, such as generators, have state in C that their attributes don't show."""
    classes = [one for one in kind.__mro__ if not one.__flags__ & _IMMUTABLE]
    attributes = sum(type(value) is MemberDescriptorType for one in classes for value in vars(one).values())
    offsets = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    known = object.__basicsize__ + struct.calcsize("P") * (attributes + offsets)
    return kind.__basicsize__ > known or kind.__itemsize__ > 0


# ---------------------------------------------------------------------------------------------- the children of a value

TENSOR_ATTRIBUTES = ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf", "grad_fn")
ARRAY_ATTRIBUTES = ("shape", "dtype", "nbytes")

TORCH_GROUPS = ("_modules", "_parameters", "_buffers")
"""Names of the dicts that store a torch module's submodules, parameters and buffers. Users know the stored objects as
attributes of the module."""

MAX_KEY = 200
"""Maximum number of characters of a key's literal."""

_CLOSED: frozenset[type] = frozenset(
    {int, float, complex, bool, type(None), str, bytes, bytearray, memoryview, type(...), type(NotImplemented)}
)
"""Classes whose values have no children."""

_ERROR_ATTRIBUTES = ("args", "__cause__", "__context__", "__traceback__", "__notes__")


@dataclass(slots=True)
class Child:
    """A child: ``read`` returns its value; ``write`` assigns a value, or is None if the child is read-only.

    Both may raise exceptions of the value's own code. ``step`` turns an expression of the parent into one of the child,
    such as ``.name`` or ``[3]``; it is empty if that is impossible.
    """

    name: str
    read: Callable[[], Any]
    step: str = ""
    write: Callable[[Any], object] | None = None


def _no_items(_start: int, _end: int) -> Iterable[Child]:
    return ()


@dataclass(slots=True)
class Children:
    """The children of a value: first those with names, then ``size`` items, which are counted from 0."""

    named: Sequence[Child] = ()
    size: int = 0
    items: Callable[[int, int], Iterable[Child]] = _no_items
    """Yields the items with numbers from the first argument up to, not including, the second."""
    find_item: Callable[[str], Child | None] | None = None
    """Returns the item of this name, if the names are not numbers."""

    def page(self, start: int, end: int) -> Iterator[Child]:
        """Yield children, counted from 0: first the named ones, then the items."""
        yield from self.named[start:end]
        before = len(self.named)
        if end > before:
            yield from self.items(max(0, start - before), min(end - before, self.size))

    def find(self, name: str) -> Child | None:
        """Return the child of this name, or None if there is none."""
        found = next((child for child in self.named if child.name == name), None)
        if found is not None or self.find_item is not None:
            return found or (self.find_item(name) if self.find_item is not None else None)
        if not (name.isascii() and name.isdecimal() and len(name) < 20 and int(name) < self.size):
            return None
        return next(iter(self.items(int(name), int(name) + 1)), None)


NameOf = Callable[[Any], str]
"""Function that returns the name of a mapping's item; its argument is the item's key."""


def children_of(value: Any, name_of_key: NameOf) -> Children:
    """Return the children of a value."""
    kind = type(value)
    if kind in _CLOSED:
        return Children()
    if is_tensor(kind):
        own = _of_tensor(value)
    elif is_array(kind):
        own = _of_array(value)
    else:
        items = _items_of(value, name_of_key)
        if items is None:
            return Children(_attributes_of(value))
        own = items
    if kind.__module__ not in ("builtins", "collections", "array"):
        own.named = [*own.named, *_in_dictionary(value, attributes(value))]
    return own


def literal_of(key: Any) -> str:
    """Return the literal of a dict's key; empty if the key has none, or a very long one."""
    kind = type(key)
    text = ""
    if kind is tuple and len(key) <= MAX_KEY:
        parts = [literal_of(one) for one in key]
        text = f"({', '.join(parts)}{',' if len(parts) == 1 else ''})" if all(parts) else ""
    elif kind in (str, bytes):
        text = repr(key) if len(key) <= MAX_KEY else ""
    elif kind is int:
        text = repr(key) if key.bit_length() <= 4 * MAX_KEY else ""
    elif kind in (bool, type(None)) or (kind is float and math.isfinite(key)):
        text = repr(key)
    return text if len(text) <= MAX_KEY else ""


def in_order(names: Iterable[object]) -> list[str]:
    """Return the names in their given order, but names such as ``__doc__`` last."""
    return sorted((name for name in names if type(name) is str), key=_is_dunder)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


# --------------------------------------------------------------------------------------------------------------- items


def _items_of(value: Any, name_of_key: NameOf) -> Children | None:
    """Return a container's items; None for a value that is not a container."""
    kind = type(value)
    if kind is range or kind is getattr(sys.modules.get("array"), "array", None):
        return _in_a_row(value, kind)
    if kind in VIEWS:
        return _one_by_one(partial(iter, value), len(value))
    found = container_of(value)
    # The fields of a named tuple are shown by their names.
    if found is None or field_names(kind) is not None:
        return None
    base, data = found
    prefix = "" if data is value else ".data"
    if base is dict:
        return _by_key(data, prefix, name_of_key)
    if base in (set, frozenset):
        return _one_by_one(partial(base.__iter__, data), base.__len__(data))
    return _in_a_row(data, base, prefix)


def _by_key(value: Any, prefix: str, name_of_key: NameOf) -> Children:
    kind = type(value)
    # If a class overrides `__getitem__`, `[key]` may return another value than the item, so the item has no
    # expression.
    is_usual = kind.__getitem__ is dict.__getitem__ or kind.__module__ in ("collections", "builtins")

    def child(key: Any) -> Child:
        literal = literal_of(key) if is_usual else ""
        step = f"{prefix}[{literal}]" if literal else ""
        return Child(
            name_of_key(key), partial(dict.__getitem__, value, key), step, partial(operator.setitem, value, key)
        )

    def items(start: int, end: int) -> Iterable[Child]:
        # One call of C code copies the keys, so no other thread can change the dict in between.
        return [child(key) for key in list(islice(dict.keys(value), start, end))]

    def find(name: str) -> Child | None:
        return next((child(key) for key in list(dict.keys(value)) if name_of_key(key) == name), None)

    return Children(size=dict.__len__(value), items=items, find_item=find)


def _in_a_row(value: Any, base: Any, prefix: str = "") -> Children:
    is_usual, is_fixed = type(value).__getitem__ is base.__getitem__, base in (tuple, range)

    def child(index: int) -> Child:
        write = None if is_fixed else partial(operator.setitem, value, index)
        return Child(
            str(index), partial(base.__getitem__, value, index), f"{prefix}[{index}]" if is_usual else "", write
        )

    return Children(size=base.__len__(value), items=lambda start, end: map(child, range(start, end)))


def _one_by_one(iterate: Callable[[], Iterator[Any]], size: int) -> Children:
    """Return items without an index, in the order of iteration."""

    def items(start: int, end: int) -> Iterable[Child]:
        found = list(islice(iterate(), start, end))
        return [Child(str(number), partial(_same, one)) for number, one in enumerate(found, start)]

    return Children(size=size, items=items)


def _same(value: Any) -> Any:
    return value


def _of_tensor(value: Any) -> Children:
    torch: Any = sys.modules["torch"]
    # If a class overrides torch's operations, evaluating an expression could run any code, so no expression is given.
    usual = (torch.Tensor.__torch_function__, torch._C._disabled_torch_function_impl)
    is_usual = type(value).__torch_function__ in usual

    def untouched(read: Callable[[], Any]) -> Any:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return read()

    def put(index: int, new: Any) -> None:
        with torch.no_grad():
            value[index] = new

    def row(index: int) -> Child:
        read = partial(untouched, lambda: local[index])
        return Child(str(index), read, f"[{index}]" if is_usual else "", partial(put, index))

    local = untouched(lambda: local_shard(value))
    # Only a leaf's gradient is read: for another tensor, torch would print a warning.
    names = (*TENSOR_ATTRIBUTES, *(["grad"] if untouched(lambda: value.is_leaf) else []))
    named = [
        Child(name, partial(untouched, partial(getattr, value, name)), f".{name}" if is_usual else "") for name in names
    ]
    if local is not value:
        # Only the local part is shown: the rows of the whole tensor would have to be gathered from other ranks.
        return Children([Child("_local_tensor", lambda: local, "._local_tensor"), *named])
    size = untouched(lambda: int(local.shape[0]) if local.ndim and not why_unreadable(torch, local) else 0)
    return Children(named, size, lambda start, end: map(row, range(start, end)))


def _of_array(value: Any) -> Children:
    numpy: Any = sys.modules["numpy"]
    kind = type(value)
    if issubclass(kind, numpy.generic):
        fields = value.dtype.names or ()
        return Children([Child(name, partial(operator.getitem, value, name), f"[{name!r}]") for name in fields])
    named = [Child(name, partial(getattr, value, name), f".{name}") for name in ARRAY_ATTRIBUTES]
    is_usual = str(module_of(kind)).partition(".")[0] == "numpy"
    rows = value if is_usual else numpy.asarray(value)

    def row(index: int) -> Child:
        write = partial(rows.__setitem__, index)
        return Child(str(index), partial(rows.__getitem__, index), f"[{index}]" if is_usual else "", write)

    size = int(value.shape[0]) if value.ndim else 0
    return Children(named, size, lambda start, end: map(row, range(start, end)))


# ---------------------------------------------------------------------------------------------------------- attributes


def _attributes_of(value: Any) -> list[Child]:
    """Return the attributes of an object, a module or a class."""
    kind = type(value)
    if issubclass(kind, type):
        return _of_class(value)
    put = partial(partial, setattr, value)
    return [
        *_fields_of_tuple(value),
        *_of_error(value),
        *_of_torch_module(value),
        *_in_dictionary(value, attributes(value)),
        *(Child(name, partial(slot.__get__, value), f".{name}", put(name)) for name, slot in _slots_of(value).items()),
    ]


def _in_dictionary(owner: Any, values: dict[str, Any]) -> list[Child]:
    kind = type(owner)
    is_torch = _is_torch_module(kind)
    finders = [class_dict(one)["__getattribute__"] for one in mro_of(kind) if "__getattribute__" in class_dict(one)]
    # If the program defines `__getattribute__`, `owner.name` may not return `owner.__dict__["name"]`. Then the
    # child's expression contains `.__dict__`.
    is_usual = type(finders[0]) is WrapperDescriptorType
    found = []
    for name in in_order(values):
        if is_torch and (name in TORCH_GROUPS or _is_of_torch(name)):
            continue
        is_plain = is_usual and name.isidentifier() and attribute(owner, name) is values[name]
        step = f".{name}" if is_plain else f".__dict__[{name!r}]"
        found.append(Child(name, partial(values.__getitem__, name), step, partial(setattr, owner, name)))
    return found


def _of_class(value: Any) -> list[Child]:
    values = class_dict(value)
    found = []
    for name in in_order(values):
        is_plain = type(values[name]) is FunctionType or not has_method(values[name], "__get__")
        step = f".{name}" if is_plain else f".__dict__[{name!r}]"
        found.append(Child(name, partial(values.__getitem__, name), step, partial(setattr, value, name)))
    return found


def _fields_of_tuple(value: Any) -> list[Child]:
    names = field_names(type(value))
    if names is None or len(names) != tuple.__len__(value):
        return []
    return [Child(str(name), partial(tuple.__getitem__, value, at), f".{name}") for at, name in enumerate(names)]


def _of_error(value: Any) -> list[Child]:
    if not issubclass(type(value), BaseException):
        return []
    found = [(name, BaseException.__dict__.get(name)) for name in _ERROR_ATTRIBUTES]
    return [
        Child(name, partial(own.__get__, value), f".{name}", partial(setattr, value, name))
        for name, own in found
        if own is not None
    ]


def _is_torch_module(kind: type) -> bool:
    module = torch_module()
    return module is not None and issubclass(kind, module)


def _is_of_torch(name: str) -> bool:
    """Return True if torch itself adds this attribute to each module; most of these are hooks."""
    return name.startswith("_") and ("hook" in name or name == "_non_persistent_buffers_set")


def _of_torch_module(value: Any) -> list[Child]:
    if not _is_torch_module(type(value)):
        return []
    found = []
    for group in TORCH_GROUPS:
        values: dict[str, Any] = attributes(value).get(group) or {}
        for name in list(values):
            step = f".{name}" if name.isidentifier() else f".{group}[{name!r}]"
            found.append(Child(name, partial(values.__getitem__, name), step, partial(setattr, value, name)))
    return found
