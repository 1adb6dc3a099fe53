"""The check whether a look at attributes runs code of the program, as properties do."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any

_USUAL = {
    name: tuple(getattr(kind, name) for kind in (object, type, ModuleType)) for name in ("__getattribute__", "__dir__")
}
"""The methods that find and list attributes, unless a class overrides them."""


def runs_nothing(namespace: Mapping[str, Any], dotted: str) -> bool:
    """Tell whether only code of the interpreter runs when the attributes of ``a.b`` are listed for ``a.b.c``."""
    first, *names = dotted.split(".")[:-1] or [""]
    value = namespace.get(first)
    for name in names:
        if _has_own_ways(value):
            return False
        value = inspect.getattr_static(value, name, None)
        if value is None or inspect.getattr_static(type(value), "__get__", None) is not None:
            return False
    return not _has_own_ways(value)


def _has_own_ways(value: object) -> bool:
    kind = type(value)
    if inspect.getattr_static(kind, "__getattr__", None) is not None:
        return True
    return any(inspect.getattr_static(kind, name) not in usual for name, usual in _USUAL.items())
