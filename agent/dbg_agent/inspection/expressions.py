"""Expressions that yield a part of a value at the frame, so that an IDE can watch it."""

from __future__ import annotations

import keyword
import math
import re
from typing import Any

MAX_EXPRESSION = 1000
"""Characters of an expression: deeper parts and longer keys get none."""

MAX_KEY = 200
"""Characters of a dict's key in an expression."""

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
