"""The attributes of objects, modules and classes; what code of the program computes is listed without its value."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import (
    DynamicClassAttribute,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from dbg_agent.values.children import field_names, module_of, torch_module
from dbg_agent.values.part import ShownPart, attribute, item, literal_of

_mro = type.__dict__["__mro__"].__get__
class_dict = type.__dict__["__dict__"].__get__


_DICTIONARIES = (GetSetDescriptorType, MemberDescriptorType)

HIDDEN_CLASS_ATTRIBUTES = ("torch.", "enum")
"""Modules whose classes have attributes that tell users nothing of an object."""

_HEAP_TYPE = 1 << 9

_ERROR_ATTRIBUTES = ("args", "__cause__", "__context__", "__traceback__", "__notes__")


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
    if name.startswith("_") or str(module_of(owner)).startswith(HIDDEN_CLASS_ATTRIBUTES) or _is_c_class(owner):
        return True
    kind = type(value)
    if issubclass(kind, (type, FunctionType, enum.Enum)):
        return True
    return any("__get__" in class_dict(one) for one in _mro(kind))


def _is_c_class(kind: type) -> bool:
    return not kind.__flags__ & _HEAP_TYPE


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


Surveys = Callable[[type], Survey]

ModuleParts = ("_modules", "_parameters", "_buffers")
"""The dicts in which a torch module keeps what users know as its attributes."""


def attributes_of(value: Any, expression: str, surveys: Surveys) -> list[Callable[[], ShownPart]]:
    """Return what makes a part of each attribute of an object, in the order in which they are shown."""
    kind = type(value)
    if issubclass(kind, ModuleType):
        return _of_namespace(value, dictionary_of(value, surveys(kind)), expression)
    if issubclass(kind, type):
        return _of_class(value, expression)
    if kind is FunctionType:
        return _of_dictionary(value, value.__dict__, expression, surveys(kind))
    survey = surveys(kind)
    dictionary = dictionary_of(value, survey)
    inner = (
        _of_torch_module(value, dictionary, expression)
        if (module := torch_module()) and issubclass(kind, module)
        else []
    )
    return [
        *_fields_of_tuple(value, expression),
        *_of_error(value, expression),
        *inner,
        *_of_dictionary(value, dictionary, expression, survey, is_torch=bool(inner)),
        *_of_slots(value, expression, survey),
        *(partial(_shared, value, name, expression) for name in survey.shared if name not in dictionary),
        *(partial(_lazy, value, name, expression) for name in survey.lazy if _is_shown(value, name, dictionary)),
    ]


def _is_shown(value: Any, name: str, dictionary: dict[Any, Any]) -> bool:
    """Tell whether a computed attribute is listed: it is neither at hand already nor one of a known builtin class."""
    return name not in dictionary and not isinstance_of(value, (BaseException, tuple))  # type: ignore[arg-type]


def _of_namespace(owner: Any, values: dict[Any, Any], expression: str) -> list[Callable[[], ShownPart]]:
    names = in_order([name for name in values if type(name) is str])
    return [partial(_in_dictionary, owner, values, name, attribute(expression, name)) for name in names]


def in_order(names: list[str]) -> list[str]:
    """Return names in their order, Python's own ones last."""
    return sorted(names, key=lambda name: name.startswith("__") and name.endswith("__"))


def _of_class(value: Any, expression: str) -> list[Callable[[], ShownPart]]:
    values = class_dict(value)
    made: list[Callable[[], ShownPart]] = []
    for name in in_order([name for name in values if type(name) is str]):
        is_plain = type(values[name]) is FunctionType or not hasattr(type(values[name]), "__get__")
        own = attribute(expression, name) if is_plain else item(attribute(expression, "__dict__"), literal_of(name))
        made.append(partial(_in_dictionary, value, values, name, own))
    return made


def _of_dictionary(
    owner: Any, values: dict[Any, Any], expression: str, survey: Survey, *, is_torch: bool = False
) -> list[Callable[[], ShownPart]]:
    made: list[Callable[[], ShownPart]] = []
    for name in in_order([name for name in values if type(name) is str]):
        if is_torch and (name in ModuleParts or _is_of_torch(name)):
            continue
        own = attribute(expression, name) if survey.is_usual and name not in survey.overriding else ""
        own = own or item(attribute(expression, "__dict__"), literal_of(name))
        made.append(partial(_in_dictionary, owner, values, name, own))
    return made


def _in_dictionary(owner: Any, values: Any, name: str, expression: str) -> ShownPart:
    return ShownPart(name, partial(values.__getitem__, name), expression, partial(setattr, owner, name))


def _of_slots(owner: Any, expression: str, survey: Survey) -> list[Callable[[], ShownPart]]:
    return [
        partial(_slot, owner, name, slot, expression) for name, slot in survey.slots.items() if _is_set(slot, owner)
    ]


def _slot(owner: Any, name: str, slot: Any, expression: str) -> ShownPart:
    return ShownPart(name, partial(slot.__get__, owner), attribute(expression, name), partial(setattr, owner, name))


def _is_set(slot: Any, owner: Any) -> bool:
    try:
        slot.__get__(owner)
    except AttributeError:
        return False
    return True


def _shared(owner: Any, name: str, expression: str) -> ShownPart:
    return ShownPart(
        name, partial(object.__getattribute__, owner, name), attribute(expression, name), partial(setattr, owner, name)
    )


def _lazy(owner: Any, name: str, expression: str) -> ShownPart:
    read = partial(getattr, owner, name)
    return ShownPart(name, read, attribute(expression, name), partial(setattr, owner, name), is_lazy=True)


def _fields_of_tuple(value: Any, expression: str) -> list[Callable[[], ShownPart]]:
    names = field_names(type(value))
    if names is None or len(names) != tuple.__len__(value):
        return []
    return [partial(_field, value, index, str(name), expression) for index, name in enumerate(names)]


def _field(value: Any, index: int, name: str, expression: str) -> ShownPart:
    return ShownPart(name, partial(tuple.__getitem__, value, index), attribute(expression, name))


def _of_error(value: Any, expression: str) -> list[Callable[[], ShownPart]]:
    if not isinstance_of(value, BaseException):
        return []
    made: list[Callable[[], ShownPart]] = []
    for name in _ERROR_ATTRIBUTES:
        own = BaseException.__dict__.get(name)
        if own is not None and hasattr(own, "__get__"):
            made.append(partial(_slot, value, name, own, expression))
    return made


# -------------------------------------------------------------------------------------------------------- torch modules


def _is_of_torch(name: str) -> bool:
    """Tell whether an attribute is one of those that torch itself gives each module, hooks mostly."""
    return name.startswith("_") and ("hook" in name or name == "_non_persistent_buffers_set")


def _of_torch_module(value: Any, dictionary: dict[Any, Any], expression: str) -> list[Callable[[], ShownPart]]:
    made: list[Callable[[], ShownPart]] = []
    for group in ModuleParts:
        values: dict[str, Any] | None = dictionary.get(group)
        for name in list(values or ()):
            own = attribute(expression, name) or item(attribute(expression, group), literal_of(name))
            made.append(partial(_in_dictionary, value, values, name, own))
    return made
