"""One part of a value, and a value that is opened into its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Part:
    """A part: ``read`` returns its value and ``write`` assigns one, None if nothing can be assigned.

    Both may raise what the value's own code raises. ``is_lazy`` tells that ``read`` runs code of the program.
    """

    name: str
    read: Callable[[], Any]
    expression: str = ""
    write: Callable[[Any], object] | None = None
    is_lazy: bool = False


Find = Callable[[str], "Part | None"]


def _no_items(_begin: int, _end: int) -> Iterable[Part]:
    return ()


def _find_none(_name: str) -> Part | None:
    return None


@dataclass(slots=True)
class Opened:
    """A value's parts: those with a name, made only for the names of one page, and those in a row."""

    names: Sequence[Any] = ()
    """What ``named`` makes a part of."""
    named: Callable[[Any], Part] = field(default=lambda part: part)
    size: int = 0
    """The number of parts in a row."""
    items: Callable[[int, int], Iterable[Part]] = _no_items
    """Yields those from one number to before another one."""
    find_item: Find = _find_none
    """Returns the part in a row that has this name; the first one, if several have it."""

    def page(self, begin: int, end: int) -> Iterator[Part]:
        """Yield parts, counted from 0: first those with a name, then those in a row."""
        yield from (self.named(name) for name in self.names[begin:end])
        before = len(self.names)
        if end > before:
            yield from self.items(max(0, begin - before), min(end - before, self.size))

    def find(self, name: str) -> Part | None:
        """Return the part of this name; None if there is none."""
        for one in self.names:
            part = self.named(one)
            if part.name == name:
                return part
        return self.find_item(name)
