"""Placement of stops: the line where a stop for a line or function takes effect, and the loaded path of its file.

A stop takes effect before an executable statement: the statement at its line, the next statement, or a function's first
statement.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import cast

from dbg_agent.frames.loaded_sources import all_codes, file_of, is_edited, read_file
from dbg_agent.frames.stacks import OWN_PACKAGES, all_frames
from dbg_agent.process.imports import compiled, parsed

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


EDITED = "the file has changed since it was loaded; the program runs the old lines"

_OWN = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), package, "")  # noqa: PTH118, PTH120
    for package in OWN_PACKAGES
)

WITHIN_STATEMENTS = sys.version_info >= (3, 12)
"""Whether the program can stop inside a statement without tracing. Python 3.11 can't: the agent inserts calls into the
code instead, and can only insert them between statements."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The line where a stop takes effect, or None and the problem. If there is a line, the problem is a warning."""

    line: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Spot:
    """A statement, or the head of a compound statement, with its lines.

    A call can be inserted into the list ``body``, in front of the statement ``before``. ``owner`` is the whole
    statement, ``except`` clause or ``case``.
    """

    first: int
    last: int
    body: list[ast.stmt]
    before: ast.stmt
    owner: ast.AST

    def __contains__(self, line: int) -> bool:
        return self.first <= line <= self.last


def place(source: bytes, path: str, target: int | str) -> Placed:
    """Return the line where a stop takes effect. ``target`` is a line, or a function's name inside the module.

    The stop is at the start of the statement that contains the line, or of the next statement. For the head of a
    function it is at the function's first statement. From Python 3.12 on, it may also be at a line with code inside a
    statement. Errors of ``ast.parse`` propagate.
    """
    tree = parsed(source, path)
    if isinstance(target, str):
        found = next((node for name, node in _functions(tree, "") if name == target), None)
        return Placed(_line_inside(found)) if found is not None else Placed(None, f"the file has no function {target}")
    spot = spot_at(list(spots_of(tree)), target)
    if spot is None:
        lines = source.count(b"\n") + (not source.endswith(b"\n"))
        return Placed(None, f"the file has {lines} lines" if target > lines else f"no code from line {target} on")
    if isinstance(spot.owner, _FUNCTIONS):
        # The line of a `def` runs once, when its module is loaded, but the user means the call of the function.
        return Placed(_line_inside(spot.owner))
    is_within = WITHIN_STATEMENTS and target in spot and target in _lines_of(compiled(source, path))
    return Placed(target if is_within else spot.first)


def _lines_of(code: CodeType) -> set[int | None]:
    """Return the lines with code in a code object and in all code objects inside it."""
    return {line for one in all_codes(code) for _, _, line in one.co_lines()}


def _line_inside(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the line of the function's first statement with code; if there is none, of its first statement."""
    first = next((statement for statement in function.body if _has_code(statement)), None)
    return _first_line(first) if first is not None else function.body[0].lineno


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield each function with its name inside the module: ``Class.method``, ``outer.inner``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, DEFINITIONS):
            if isinstance(child, _FUNCTIONS):
                yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _functions(child, prefix)


def spot_at(spots: list[Spot], line: int) -> Spot | None:
    """Return the innermost statement that contains the line; if there is none, the first statement after it."""
    here = [spot for spot in spots if line in spot]
    if not here:
        return min((spot for spot in spots if spot.first > line), key=lambda spot: spot.first, default=None)
    start = max(spot.first for spot in here)
    begun = [spot for spot in here if spot.first == start]
    # In `def f(): g()` the stop is before `g()`; in `if x: g()` it is before the whole `if`.
    inner = [spot for spot in begun if not isinstance(spot.owner, DEFINITIONS)]
    return inner[0] if inner else begun[0]


def spots_of(tree: ast.Module) -> Iterator[Spot]:
    """Yield the places of a module where a stop can take effect."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                yield from (_spot(statement, body) for statement in body if _has_code(statement))
        if isinstance(node, ast.ExceptHandler):
            last = node.type.end_lineno if node.type is not None else None
            yield Spot(node.lineno, last or node.lineno, node.body, node.body[0], node)
        elif isinstance(node, ast.match_case):
            yield Spot(node.pattern.lineno, _last_of_head(node.pattern, node.body), node.body, node.body[0], node)


def _spot(statement: ast.stmt, body: list[ast.stmt]) -> Spot:
    inner = getattr(statement, "body", None) or getattr(statement, "cases", None)
    first = _first_line(statement)
    last = statement.end_lineno or first
    if isinstance(inner, list):
        last = first if isinstance(statement, ast.Try) else _last_of_head(statement, inner)
    return Spot(first, last, body, statement, statement)


def _last_of_head(node: ast.stmt | ast.pattern, body: Sequence[ast.AST]) -> int:
    """Return the last line of a compound statement's head; comments below the head belong to the body."""
    expressions = [
        child.end_lineno or child.lineno
        for child in ast.walk(node)
        if isinstance(child, (ast.expr, ast.pattern, ast.arg)) and child.lineno < _first_of(body[0])
    ]
    # A line with only a closing bracket and the colon is not part of the head.
    return min(max([node.lineno, *expressions]), max(node.lineno, _first_of(body[0]) - 1))


def _first_of(node: ast.AST) -> int:
    return node.pattern.lineno if isinstance(node, ast.match_case) else _first_line(cast(ast.stmt, node))


def _first_line(statement: ast.stmt) -> int:
    decorators: list[int] = [decorator.lineno for decorator in getattr(statement, "decorator_list", ())]
    return min([statement.lineno, *decorators])


def _has_code(statement: ast.AST) -> bool:
    """Return True if the statement is executable; docstrings and declarations are not."""
    if not isinstance(statement, ast.stmt) or isinstance(statement, (ast.Global, ast.Nonlocal)):
        return False
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    return not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")


# -------------------------------------------------------------------------------------------------- the file of a stop


def loaded_path(file: str) -> str | None:
    """Return the absolute path under which the program has loaded this file, or None if it has not.

    The path may differ from ``file``: symbolic links and mounts give a file several names.
    """
    name, real = os.path.basename(file), ""  # noqa: PTH119 - no pathlib in a rank
    for path in _loaded_paths():
        if path == file:
            return file
        # Compare the base names first, because resolving a path is slow.
        if os.path.basename(path) == name:  # noqa: PTH119
            real = real or os.path.realpath(file)
            if os.path.realpath(path) == real:
                return path
    return None


def _loaded_paths() -> Iterator[str]:
    for module in list(sys.modules.values()):
        path = file_of(module)
        if path is not None:
            yield os.path.abspath(path)  # noqa: PTH100
    for frame in list(all_frames().values()):
        walk = frame
        while walk is not None:
            # Frames also show a script that another script executes, which is not in sys.modules.
            yield os.path.abspath(walk.f_code.co_filename)  # noqa: PTH100
            walk = walk.f_back  # type: ignore[assignment] # the outermost frame has no caller


def same_file(name: str, files: Collection[str]) -> str:
    """Return the path in ``files`` that leads to the same file as ``name``, a ``co_filename``; else an empty string."""
    path = os.path.abspath(name)  # noqa: PTH100
    if path in files:
        return path
    alike = [file for file in files if os.path.basename(file) == os.path.basename(path)]  # noqa: PTH119
    real = os.path.realpath(path) if alike else ""
    return next((file for file in alike if os.path.realpath(file) == real), "")


def is_ours(file: str) -> bool:
    """Return True if the file belongs to dbg-agent, where breakpoints are not allowed."""
    return os.path.abspath(file).startswith(_OWN)  # noqa: PTH100


def place_in(path: str, line: int) -> Placed:
    """Return the line where a breakpoint for this line of a file takes effect, or None and the problem.

    If there is a line, the problem is a warning.
    """
    found = read_file(path)
    if found is None:
        return Placed(None, "the file can't be read where this rank runs")
    try:
        placed = place(found, path, line)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Placed(None, f"the file is not valid Python ({type(error).__name__})")
    return Placed(placed.line, EDITED) if placed.line is not None and is_edited(path, ()) else placed
