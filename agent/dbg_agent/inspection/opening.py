"""How a value is opened into its parts, by its class; no code of the program runs."""

from __future__ import annotations

from collections import UserDict, UserList
from collections.abc import Callable
from typing import Any

from dbg_agent.inspection.class_survey import Survey, survey_of
from dbg_agent.inspection.containers import items_of
from dbg_agent.inspection.objects import attributes_of
from dbg_agent.inspection.part import Opened, Part
from dbg_agent.inspection.tensors import Statistics, tensor_parts

_CLOSED: frozenset[type] = frozenset(
    {int, float, complex, bool, type(None), str, bytes, bytearray, memoryview, type(...), type(NotImplemented)}
)
"""Classes whose values have no parts."""


class LazyPart:
    """Takes the place of a value that is not read before somebody asks for it: it has one part, the value."""

    def __init__(self, part: Part) -> None:
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
            return Opened([value.part])
        if kind is Statistics:
            return Opened()
        special = tensor_parts(value, expression)
        if special is not None:
            own = self._own_attributes(value, expression)
            return Opened([*special.names, *own], _made, special.size, special.items, special.find_item)
        items = items_of(value, expression)
        names: list[Callable[[], Part]]
        if items is None:
            return Opened(attributes_of(value, expression, self._survey), _made)
        is_plain = kind.__module__ in ("builtins", "collections", "array") and not issubclass(
            kind, (UserDict, UserList)
        )
        names = [] if is_plain else self._own_attributes(value, expression)
        return Opened(names, _made, items.size, items.items, items.find_item)

    def _own_attributes(self, value: Any, expression: str) -> list[Callable[[], Part]]:
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


def _made(make: Callable[[], Part]) -> Part:
    return make()
