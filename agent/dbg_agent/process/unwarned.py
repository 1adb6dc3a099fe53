"""No warnings of what we do in the program's process, in its log or as errors."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import CodeType
from typing import cast

DEBUGGER_MODULES = r"(pudb|urwid|urwid_readline|jedi|parso|pygments)(\.|$)"
"""The modules of PuDB and of what it imports, as a pattern."""


@contextmanager
def unwarned(module: str = DEBUGGER_MODULES) -> Iterator[None]:
    """Ignore warnings of these modules, by default of a debugger's, even in a program that makes errors of warnings.

    One filter is put in front and taken out again. ``warnings.catch_warnings`` would save and restore all filters of
    the process, and lose filters if another thread does the same meanwhile.
    """
    warnings.filterwarnings("ignore", module=module)
    added = warnings.filters[0]
    try:
        yield
    finally:
        with suppress(ValueError):
            list.remove(cast("list[object]", warnings.filters), added)


def compiled(source: bytes | ast.Module, path: str) -> CodeType:
    """Compile text of the program that the program compiles, too, without its warnings. Raises what `compile` does."""
    with unwarned(_module(path)):
        code: CodeType = compile(source, path, "exec", dont_inherit=True)
        return code


def parsed(source: bytes | str, path: str = "<unknown>") -> ast.Module:
    """Parse text of the program without its warnings. Raises what `ast.parse` does."""
    with unwarned(_module(path)):
        return ast.parse(source, path)


def _module(path: str) -> str:
    """Return a pattern of the module that Python names in warnings of this file's text."""
    return re.escape(path.removesuffix(".py"))
