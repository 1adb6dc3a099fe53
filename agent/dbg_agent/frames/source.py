"""Syntax tree node that a frame is executing.

Python has the source position of each instruction, so no bytecode is decoded. Each function is parsed at most once. The
node is unknown if the source is missing or has changed.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from opcode import opname
from types import CodeType, FrameType
from typing import Any, NamedTuple

from dbg_agent.frames.loaded_sources import all_codes, lines_of, read_file
from dbg_agent.host.descriptors import FILE_SECONDS, file_system
from dbg_agent.process.imports import parsed

MAX_FILE_BYTES = 2_000_000
"""Maximum size of a file that is read, in bytes."""

MAX_PARSED = 100_000
"""Maximum number of characters that are parsed at once. For this many, the parser holds the GIL for some 15 ms."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPES = (*_DEFINITIONS, ast.Lambda)
COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
"""Comprehensions, which may have a frame of their own."""

Span = tuple[int, int, int, int]
"""First line, last line, first column, and the column after the last one."""


class Tree(NamedTuple):
    """A parsed source: the nodes by their spans, and the parent of each node."""

    spans: Mapping[Span, list[ast.AST]]
    parents: Mapping[ast.AST, ast.AST]


class Spot(NamedTuple):
    """The node that a frame is executing: an expression, or a statement if the instruction is part of no expression."""

    frame: FrameType
    node: ast.AST
    tree: Tree

    def outward(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Yield (parent, child) pairs in the function, nearest first; the child is the node or contains the node."""
        is_part = self.frame.f_code.co_name.endswith(("comp>", "expr>"))
        while (parent := self.tree.parents.get(node)) is not None:
            yield parent, node
            if isinstance(parent, _SCOPES) or (is_part and isinstance(parent, COMPREHENSIONS)):
                return
            node = parent

    @property
    def scope(self) -> ast.AST:
        """The node of the whole function."""
        return next((parent for parent, _ in reversed(list(self.outward(self.node)))), self.node)


class _UnreadError(Exception):
    """Raised when a file can't be read, or its file system does not answer in time."""


def operation(frame: FrameType) -> str:
    """Return the name of the instruction that a frame is executing; empty if it has not started."""
    raw, at = frame.f_code.co_code, frame.f_lasti
    # While a called Python function runs, f_lasti is at the last inline cache of the call.
    while at > 0 and at < len(raw) and opname[raw[at]] == "CACHE":
        at -= 2
    return opname[raw[at]] if 0 <= at < len(raw) else ""


def spot_of(frame: FrameType) -> Spot | None:
    """Return the node that a frame is executing, or None if it is unknown."""
    span = _span(frame)
    try:
        tree = _tree(frame.f_code) if span is not None else None
    except _UnreadError:
        return None
    if span is None or tree is None:
        return None
    found = tree.spans.get(span) or [
        # If a method's name is on a later line than its object, the span of the call starts at the name.
        node
        for where, nodes in tree.spans.items()
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and where[0] < span[0] <= where[1]
        if (node.func.end_lineno, (node.func.end_col_offset or 0) - len(node.func.attr)) == (span[0], span[2])
    ]
    spots = [Spot(frame, node, tree) for node in found]
    return next((one for one in spots if _is_of(one, frame.f_code)), None)


def _span(frame: FrameType) -> Span | None:
    if frame.f_lasti < 0:
        return None
    first, last, start, end = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    return None if first is None or last is None or start is None or end is None else (first, last, start, end)


def _is_of(spot: Spot, code: CodeType) -> bool:
    """Return True if the node belongs to the function and the function's code has all names in the node.

    If not, the file may have changed since it was loaded.
    """
    scope = spot.scope
    name = scope.name if isinstance(scope, _DEFINITIONS) else ""
    if name != ("" if code.co_name.startswith("<") else code.co_name):
        return False
    if not isinstance(spot.node, ast.expr):
        return True
    known = {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
    found = (one.id for one in nodes_in(spot.node, (*_SCOPES, *COMPREHENSIONS)) if isinstance(one, ast.Name))
    return all(name in known or mangled(code, name) in known for name in found)


def span_of(node: Any) -> Span:
    """Return the span of an expression or a statement."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def mangled(code: CodeType, name: str) -> str:
    """Return the name as the method's code has it: a private name gets the class name as prefix."""
    if not name.startswith("__") or name.endswith("__"):
        return name
    return next((one for one in code.co_names if one.startswith("_") and one.endswith(name)), name)


def nodes_in(node: ast.AST, without: tuple[type, ...] = _SCOPES) -> Iterator[ast.AST]:
    """Yield the node after its descendants, without nodes of nested functions and classes."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, without):
            yield from nodes_in(child, without)
    yield node


@lru_cache(256)
def _tree(code: CodeType) -> Tree | None:
    """Return the tree of a function's source, or of the whole file if the code is a lambda, comprehension or module."""
    lines = _lines(code.co_filename)
    first, text = code.co_firstlineno, "".join(lines)
    if not code.co_name.startswith("<"):
        ends = (end for one in all_codes(code) for _, end, _, _ in one.co_positions() if end)
        # An indented function is parsed inside a block, so that its columns stay the same as in the file.
        text = "".join(lines[first - 1 : max(ends, default=first)])
        text, shift = (f"if 1:\n{text}", first - 2) if text[:1].isspace() else (text, first - 1)
    else:
        shift = 0
    if len(text) > MAX_PARSED:
        return None
    try:
        module = parsed(text, code.co_filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _indexed(module, shift)


def _indexed(module: ast.Module, shift: int) -> Tree:
    spans: dict[Span, list[ast.AST]] = {}
    parents: dict[ast.AST, ast.AST] = {}
    for parent in ast.walk(module):
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, (ast.stmt, ast.expr)):
                child.lineno += shift
                child.end_lineno = (child.end_lineno or 0) + shift
                if not isinstance(child, ast.Expr):
                    spans.setdefault(span_of(child), []).append(child)
            parents[child] = parent
    return Tree(spans, parents)


def _lines(path: str) -> list[str]:
    """Return the lines of a file from linecache, or from the file. Raise _UnreadError if reading fails or hangs."""
    entry = linecache.cache.get(path)
    if entry is not None and len(entry) > 1:
        return list(entry[2])
    # Functions without a file, such as those of frozen modules, have a name in angle brackets instead of a path.
    is_file = not path.startswith("<")
    found = file_system.within(FILE_SECONDS, lambda: read_file(path, MAX_FILE_BYTES), None) if is_file else None
    if found is None:
        raise _UnreadError
    return lines_of(found)
