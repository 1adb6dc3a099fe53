"""One part of a value as an IDE shows it: how it is read, assigned, and named by an expression at the frame."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MAX_EXPRESSION = 1000
"""Characters of an expression: deeper parts and longer keys get none."""

MAX_KEY = 200
"""Characters of a dict's key in an expression."""


@dataclass(slots=True)
class ShownPart:
    """A part: ``read`` returns its value and ``write`` assigns one, None if nothing can be assigned.

    Both may raise what the value's own code raises. ``is_lazy`` tells that ``read`` runs code of the program.
    """

    name: str
    read: Callable[[], Any]
    expression: str = ""
    write: Callable[[Any], object] | None = None
    is_lazy: bool = False


Find = Callable[[str], "ShownPart | None"]


def _no_items(_begin: int, _end: int) -> Iterable[ShownPart]:
    return ()


def _find_none(_name: str) -> ShownPart | None:
    return None


@dataclass(slots=True)
class Opened:
    """A value's parts: those with a name, made only for the names of one page, and those in a row."""

    names: Sequence[Callable[[], ShownPart]] = ()
    """What makes a part of each name."""
    size: int = 0
    """The number of parts in a row."""
    items: Callable[[int, int], Iterable[ShownPart]] = _no_items
    """Yields those from one number to before another one."""
    find_item: Find = _find_none
    """Returns the part in a row that has this name; the first one, if several have it."""

    def page(self, begin: int, end: int) -> Iterator[ShownPart]:
        """Yield parts, counted from 0: first those with a name, then those in a row."""
        yield from (make() for make in self.names[begin:end])
        before = len(self.names)
        if end > before:
            yield from self.items(max(0, begin - before), min(end - before, self.size))

    def find(self, name: str) -> ShownPart | None:
        """Return the part of this name; None if there is none."""
        for make in self.names:
            part = make()
            if part.name == name:
                return part
        return self.find_item(name)


_SIMPLE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
"""A dotted name, to which a part can be added as it is."""


def is_name(text: str) -> bool:
    """Tell whether a text can stand as a name in an expression."""
    return text.isidentifier() and not keyword.iskeyword(text)


def root_of(text: str) -> str:
    """Return a typed expression in a form to which parts can be added; empty if it has none."""
    text = text.strip()
    if _SIMPLE.fullmatch(text):
        return text
    import ast

    try:
        # A comment or a line break at the end would swallow what is added.
        root = ast.unparse(ast.parse(text, mode="eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return _bounded(f"({root})")


def item(parent: str, index: str) -> str:
    """Return the expression for ``parent[index]``; empty if one of the two has none."""
    return _bounded(f"{parent}[{index}]") if parent and index else ""


def attribute(parent: str, name: str) -> str:
    """Return the expression for an attribute; empty if it has none."""
    return _bounded(f"{parent}.{name}") if parent and is_name(name) else ""


def call(function: str, parent: str, *more: str) -> str:
    """Return the expression for a call with ``parent`` as its first argument; empty if an argument has none."""
    arguments = (parent, *more)
    return _bounded(f"{function}({', '.join(arguments)})") if all(arguments) else ""


def literal_of(key: Any) -> str:
    """Return the literal of a dict's key; empty if it has none, or a very long one."""
    kind = type(key)
    if kind in (str, bytes):
        text = repr(key) if len(key) <= MAX_KEY else ""
    elif kind is int:
        text = repr(key) if key.bit_length() <= 4 * MAX_KEY else ""
    elif kind is float:
        text = repr(key) if math.isfinite(key) else ""
    elif kind in (bool, type(None)):
        text = repr(key)
    elif kind is tuple and len(key) <= MAX_KEY:
        parts = [literal_of(one) for one in key]
        text = f"({', '.join(parts)}{',' if len(parts) == 1 else ''})" if all(parts) else ""
    else:
        text = ""
    return text if len(text) <= MAX_KEY else ""


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_EXPRESSION else ""
