"""What a value is made of, by its class: elements, fields, attributes; for its text, its digests and what an IDE opens.

No code of the program runs, but that of a ``data`` that a class derived from UserDict or UserList computes.
"""

from __future__ import annotations

import struct
import sys
from collections import UserDict, UserList, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
)
from typing import Any, NamedTuple
from weakref import ReferenceType

VIEWS: frozenset[type] = frozenset({type({}.keys()), type({}.values()), type({}.items())})

_CONTAINERS: tuple[Any, ...] = (dict, set, frozenset, tuple, list, deque)
"""Classes whose elements are found by methods of their own, whatever a derived class overrides."""

_WRAPPERS: tuple[tuple[type, Any], ...] = ((UserDict, dict), (UserList, list))
"""Classes that have their elements in a container of their own."""

_IMMUTABLE = 1 << 8
"""The flag of classes that are written in C."""


class Container(NamedTuple):
    """The elements of a value: ``data`` is the value itself or what it wraps, and ``base`` the class of its methods."""

    base: Any
    data: Any


module_of = type.__dict__["__module__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__


def name_of(kind: type) -> str:
    """Return the short name of a class."""
    return str(_qualname_of(kind)).rpartition(".")[2]


def full_name_of(kind: type) -> str:
    """Return the name of a class with its module, which is left out for Python's builtins."""
    module, name = str(module_of(kind)), str(_qualname_of(kind))
    return name if module == "builtins" else f"{module}.{name}"


def is_container(kind: type) -> bool:
    """Tell whether values of a class have elements."""
    return issubclass(kind, (*_CONTAINERS, UserDict, UserList))


def container_of(value: Any) -> Container | None:
    """Return the elements of a value; None if it has none, or if it wraps something else than its class does."""
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
        return ()  # a variable that is not bound yet


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
"""What objects of these classes are made of beside their attributes; their reprs may leave out or hide some of it."""

EXACT: dict[type, Callable[[Any], object]] = {
    str: lambda value: str.__getitem__(value, slice(None)),
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    bytearray: lambda value: bytearray.__getitem__(value, slice(None)),
    int: int.__pos__,
    float: float.__pos__,
    complex: complex.__pos__,
}
"""The value of an object of a class that is derived from one of these, without its class and its attributes."""


def attributes_of(value: object) -> dict[str, object]:
    """Return the attributes in an object's ``__dict__`` and slots, without running code of its class."""
    found: dict[str, object] = {}
    for one in type(value).__mro__:
        for name, slot in vars(one).items():
            if type(slot) is MemberDescriptorType and not name.startswith("__"):
                with suppress(AttributeError):
                    found[name] = slot.__get__(value)
    try:
        dictionary = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return found
    if type(dictionary) is dict:
        found.update((name, inner) for name, inner in list(dictionary.items()) if type(name) is str)
    return found


def has_default_repr(kind: type) -> bool:
    """Tell whether objects of a class show themselves by their address."""
    own: object = kind.__repr__
    return own is object.__repr__


def torch_module() -> type | None:
    """Return torch's class of modules; None if the program has not loaded it."""
    found = getattr(sys.modules.get("torch.nn.modules.module"), "Module", None)
    return found if isinstance(found, type) else None


def hides_content(kind: type) -> bool:
    """Tell whether the repr of a class shows nothing of its objects' values: the default one, or a torch module's."""
    module = torch_module()
    return has_default_repr(kind) or (module is not None and issubclass(kind, module))


def has_hidden_state(kind: type) -> bool:
    """Tell whether an object has more in memory than its attributes: what C code keeps, as in a generator."""
    classes = [one for one in kind.__mro__ if not one.__flags__ & _IMMUTABLE]
    attributes = sum(type(value) is MemberDescriptorType for one in classes for value in vars(one).values())
    offsets = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    known = object.__basicsize__ + struct.calcsize("P") * (attributes + offsets)
    return kind.__basicsize__ > known or kind.__itemsize__ > 0
