"""The values of the current stop that have been listed, by the handle under which an IDE asks for their parts."""

from __future__ import annotations

from typing import Any

MAX_HANDLES = 10_000
"""Values that are kept: as many as an IDE lists in a hundred full pages; the oldest are forgotten first."""


class NoSuchHandle(Exception):
    """A handle without a value; the text says why."""


class Handles:
    """Values with their expressions. All methods run in the stopped thread, so finalizers of values run there, too."""

    def __init__(self, most: int = MAX_HANDLES) -> None:
        self._most = most
        self._values: dict[int, tuple[Any, str]] = {}
        self._known: dict[tuple[int, str], int] = {}
        self._last = 0
        self._last_before = 0
        """The last handle that was given before the thread last went on."""

    def of(self, value: Any, expression: str) -> int:
        """Return a handle of a value: the one that it has, or a new one."""
        # As long as the table keeps the value, no other value has its id.
        known = self._known.get((id(value), expression))
        if known is not None:
            return known
        if len(self._values) >= self._most:
            self._drop(next(iter(self._values)))
        self._last += 1
        self._values[self._last] = (value, expression)
        self._known[id(value), expression] = self._last
        return self._last

    def find(self, handle: int) -> tuple[Any, str]:
        """Return the value of a handle and its expression; raise NoSuchHandle."""
        found = self._values.get(handle)
        if found is not None:
            return found
        if handle > self._last or handle <= 0:
            raise NoSuchHandle(f"there is no value {handle}; list the variables again")
        if handle <= self._last_before:
            raise NoSuchHandle("the rank has run on since this value was listed; list the variables again")
        raise NoSuchHandle(
            f"more than {self._most:,} values have been listed at this stop, so this one is no longer at hand; "
            "list the variables again"
        )

    def clear(self) -> None:
        """Forget all values, since the thread goes on."""
        self._last_before = self._last
        self._known.clear()
        # A finalizer may do anything, so the table is whole before one runs.
        values, self._values = self._values, {}
        values.clear()

    def _drop(self, handle: int) -> None:
        value, expression = self._values.pop(handle)
        del self._known[id(value), expression]
