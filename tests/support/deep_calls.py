"""Calls close to the recursion limit, whatever counts for it in a release of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def calls_left(nested: int = 0) -> int:
    try:
        return calls_left(nested + 1)
    except RecursionError:
        return nested


def with_calls_left(left: int, call: Callable[[], T]) -> T:
    """Return what ``call`` returns; it is called where the stack has room for itself and ``left`` calls more."""

    def deep(nested: int) -> T:
        return deep(nested - 1) if nested else call()

    return deep(calls_left() - left - 1)
