"""The attributes of objects, modules and classes; what code of the program computes is listed without its value."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from dbg_agent.inspection.class_survey import Survey, class_dict, dictionary_of, isinstance_of
from dbg_agent.inspection.expressions import attribute, item, literal_of
from dbg_agent.inspection.part import Part

Surveys = Callable[[type], Survey]

ModuleParts = ("_modules", "_parameters", "_buffers")
"""The dicts in which a torch module keeps what users know as its attributes."""

_ERROR_ATTRIBUTES = ("args", "__cause__", "__context__", "__traceback__", "__notes__")


def attributes_of(value: Any, expression: str, surveys: Surveys) -> list[Callable[[], Part]]:
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
    inner = _of_torch_module(value, dictionary, expression) if _is_torch_module(kind) else []
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


def _of_namespace(owner: Any, values: dict[Any, Any], expression: str) -> list[Callable[[], Part]]:
    names = in_order([name for name in values if type(name) is str])
    return [partial(_in_dictionary, owner, values, name, attribute(expression, name)) for name in names]


def in_order(names: list[str]) -> list[str]:
    """Return names in their order, Python's own ones last."""
    return sorted(names, key=lambda name: name.startswith("__") and name.endswith("__"))


def _of_class(value: Any, expression: str) -> list[Callable[[], Part]]:
    values = class_dict(value)
    made: list[Callable[[], Part]] = []
    for name in in_order([name for name in values if type(name) is str]):
        is_plain = type(values[name]) is FunctionType or not hasattr(type(values[name]), "__get__")
        own = attribute(expression, name) if is_plain else item(attribute(expression, "__dict__"), literal_of(name))
        made.append(partial(_in_dictionary, value, values, name, own))
    return made


def _of_dictionary(
    owner: Any, values: dict[Any, Any], expression: str, survey: Survey, *, is_torch: bool = False
) -> list[Callable[[], Part]]:
    made: list[Callable[[], Part]] = []
    for name in in_order([name for name in values if type(name) is str]):
        if is_torch and (name in ModuleParts or _is_of_torch(name)):
            continue
        own = attribute(expression, name) if survey.is_usual and name not in survey.overriding else ""
        own = own or item(attribute(expression, "__dict__"), literal_of(name))
        made.append(partial(_in_dictionary, owner, values, name, own))
    return made


def _in_dictionary(owner: Any, values: Any, name: str, expression: str) -> Part:
    return Part(name, partial(values.__getitem__, name), expression, partial(setattr, owner, name))


def _of_slots(owner: Any, expression: str, survey: Survey) -> list[Callable[[], Part]]:
    return [
        partial(_slot, owner, name, slot, expression) for name, slot in survey.slots.items() if _is_set(slot, owner)
    ]


def _slot(owner: Any, name: str, slot: Any, expression: str) -> Part:
    return Part(name, partial(slot.__get__, owner), attribute(expression, name), partial(setattr, owner, name))


def _is_set(slot: Any, owner: Any) -> bool:
    try:
        slot.__get__(owner)
    except AttributeError:
        return False
    return True


def _shared(owner: Any, name: str, expression: str) -> Part:
    return Part(
        name, partial(object.__getattribute__, owner, name), attribute(expression, name), partial(setattr, owner, name)
    )


def _lazy(owner: Any, name: str, expression: str) -> Part:
    read = partial(getattr, owner, name)
    return Part(name, read, attribute(expression, name), partial(setattr, owner, name), is_lazy=True)


def _fields_of_tuple(value: Any, expression: str) -> list[Callable[[], Part]]:
    names = getattr(type(value), "_fields", None) if isinstance_of(value, tuple) else None
    if not isinstance(names, tuple) or len(names) != tuple.__len__(value):
        return []
    return [partial(_field, value, index, str(name), expression) for index, name in enumerate(names)]


def _field(value: Any, index: int, name: str, expression: str) -> Part:
    return Part(name, partial(tuple.__getitem__, value, index), attribute(expression, name))


def _of_error(value: Any, expression: str) -> list[Callable[[], Part]]:
    if not isinstance_of(value, BaseException):
        return []
    made: list[Callable[[], Part]] = []
    for name in _ERROR_ATTRIBUTES:
        own = BaseException.__dict__.get(name)
        if own is not None and hasattr(own, "__get__"):
            made.append(partial(_slot, value, name, own, expression))
    return made


# -------------------------------------------------------------------------------------------------------- torch modules


def _is_torch_module(kind: type) -> bool:
    module = sys.modules.get("torch.nn.modules.module")
    base = getattr(module, "Module", None)
    return base is not None and issubclass(kind, base)


def _is_of_torch(name: str) -> bool:
    """Tell whether an attribute is one of those that torch itself gives each module, hooks mostly."""
    return name.startswith("_") and ("hook" in name or name == "_non_persistent_buffers_set")


def _of_torch_module(value: Any, dictionary: dict[Any, Any], expression: str) -> list[Callable[[], Part]]:
    made: list[Callable[[], Part]] = []
    for group in ModuleParts:
        values: dict[str, Any] | None = dictionary.get(group)
        for name in list(values or ()):
            own = attribute(expression, name) or item(attribute(expression, group), literal_of(name))
            made.append(partial(_in_dictionary, value, values, name, own))
    return made
