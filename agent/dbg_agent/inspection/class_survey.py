"""What the class of an object says of its attributes, read without running any code of the program."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import (
    DynamicClassAttribute,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

_mro = type.__dict__["__mro__"].__get__
class_dict = type.__dict__["__dict__"].__get__
_module_of = type.__dict__["__module__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__

_DICTIONARIES = (GetSetDescriptorType, MemberDescriptorType)

HIDDEN_CLASS_ATTRIBUTES = ("torch.", "enum")
"""Modules whose classes have attributes that tell users nothing of an object."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The attributes that objects of a class have by their class."""

    dictionary: Any
    """The descriptor of ``__dict__``; None if objects have none, or if code of the program would make it."""
    slots: Mapping[str, Any]
    """Descriptors of slots: reading one runs no code."""
    lazy: tuple[str, ...]
    """Attributes that code computes: properties, and what a class written in C computes."""
    shared: Mapping[str, Any]
    """Data that the class itself has, for all its objects."""
    overriding: frozenset[str]
    """Names that the class computes even if the object's ``__dict__`` has them."""
    is_usual: bool
    """Whether ``object.name`` is what ``__dict__`` has: no method of the program's finds attributes."""


def survey_of(kind: type) -> Survey:
    """Return what a class says of its objects' attributes."""
    slots: dict[str, Any] = {}
    lazy: dict[str, None] = {}
    shared: dict[str, Any] = {}
    overriding: set[str] = set()
    known: set[str] = set()
    for one in _mro(kind):
        for name, value in list(class_dict(one).items()):
            if name in known or not isinstance(name, str):
                continue
            known.add(name)
            if _is_dunder(name):
                continue
            if _overrides(value):
                overriding.add(name)
            if type(value) is MemberDescriptorType:
                slots[name] = value
            elif _computes(value):
                lazy[name] = None
            elif not _is_hidden(one, name, value):
                shared[name] = value
    return Survey(_dictionary_of(kind), slots, tuple(lazy), shared, frozenset(overriding), _is_usual(kind))


def _overrides(value: Any) -> bool:
    names = {name for one in _mro(type(value)) for name in class_dict(one)}
    return "__set__" in names or "__delete__" in names


def _computes(value: Any) -> bool:
    kind = type(value)
    # DynamicClassAttribute is the property of an enum's members.
    return issubclass(kind, (property, cached_property, DynamicClassAttribute, GetSetDescriptorType))


def _is_hidden(owner: type, name: str, value: Any) -> bool:
    """Tell whether a class's own attribute says nothing of its objects: methods, other classes, private names."""
    if name.startswith("_") or str(_module_of(owner)).startswith(HIDDEN_CLASS_ATTRIBUTES) or _is_c_class(owner):
        return True
    kind = type(value)
    if issubclass(kind, (type, FunctionType, enum.Enum)):
        return True
    return any("__get__" in class_dict(one) for one in _mro(kind))


def _is_c_class(kind: type) -> bool:
    return not kind.__flags__ & _HEAP_TYPE


_HEAP_TYPE = 1 << 9


def _is_usual(kind: type) -> bool:
    found = next(class_dict(one)["__getattribute__"] for one in _mro(kind) if "__getattribute__" in class_dict(one))
    return type(found) is WrapperDescriptorType


def _dictionary_of(kind: type) -> Any:
    for one in _mro(kind):
        found = class_dict(one).get("__dict__")
        if found is not None:
            return found if type(found) in _DICTIONARIES else None
    return None


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def dictionary_of(value: Any, survey: Survey) -> dict[Any, Any]:
    """Return the ``__dict__`` of an object itself; an empty one if it has none."""
    if isinstance_of(value, ModuleType):
        found = vars(value)
    elif survey.dictionary is None:
        return {}
    else:
        found = survey.dictionary.__get__(value)
    return found if type(found) is dict else {}


def isinstance_of(value: Any, kind: type) -> bool:
    """Tell whether a value is of a class, without asking the value, which may be a proxy."""
    return issubclass(type(value), kind)


def name_of(kind: type) -> str:
    """Return the short name of a class."""
    return str(_qualname_of(kind)).rpartition(".")[2]


def full_name_of(kind: type) -> str:
    """Return the name of a class with its module, which is left out for Python's builtins."""
    module, name = str(_module_of(kind)), str(_qualname_of(kind))
    return name if module == "builtins" else f"{module}.{name}"
