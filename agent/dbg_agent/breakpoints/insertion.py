"""Calls that are put into a module's syntax tree, so that it stops at a line or in a function without tracing; pure.

Only calls are added. Each call has the line of the statement that follows it, so all line numbers stay as they are,
in tracebacks too. A condition becomes an `if` in the function's own code, since a false one must cost little; one that
would change the function's variables is evaluated in the function's frame instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import cast

from dbg_agent.process.imports import compiled, parsed
from dbg_wire.records.stop_points import StopAt, StopIn

PASSED = "__dbg_stop_point_passed__"
"""The builtin that tells whether the condition of a numbered stop is to be evaluated."""

RAISED = "__dbg_stop_point_raised__"
"""The builtin in the ``except`` clause: it tells whether the condition has raised the exception."""

HELD = "__dbg_stop_point_held__"
"""The builtin that stops if the condition is true."""

RANK = "__dbg_stop_point_rank__"
"""The builtin that returns this process's rank if the program has no ``rank`` of its own."""

_WITH_VARIABLES = (ast.NamedExpr, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Expressions that have variables of their own, or set variables of the function."""

CALL = "__dbg_stop_point__"
"""The builtin that is called with the number of a stop. It hides no name of the module."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def inlined(text: str, number: int, variables: frozenset[str], line: int, column: int) -> ast.stmt | None:
    """Return the statement that stops if the condition is true or raises; None if the condition has or sets variables.

    ``variables`` are the function's variables, with those that it uses of the functions around it.
    """
    condition = ast.parse(text.strip(), mode="eval").body
    if any(isinstance(node, _WITH_VARIABLES) for node in ast.walk(condition)):
        return None
    if "rank" not in variables:
        condition = _Ranked().visit(condition)
    asked = ast.BoolOp(ast.And(), [_builtin_call(PASSED, number), condition])
    statement = ast.Try(
        # Before Python 3.12 the jump after the `if` has no line without `pass`: a debugger would see this line twice.
        body=[ast.If(asked, [ast.Expr(_builtin_call(HELD, number))], []), ast.Pass()],
        handlers=[ast.ExceptHandler(_builtin_call(RAISED, number), None, [ast.Expr(_builtin_call(HELD, number))])],
        orelse=[],
        finalbody=[],
    )
    for node in ast.walk(statement):
        if isinstance(node, (ast.stmt, ast.expr, ast.excepthandler, ast.keyword)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = column
    return statement


class _Ranked(ast.NodeTransformer):
    """Replace ``rank`` by a call."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Call(ast.Name(RANK, ast.Load()), [], []) if node.id == "rank" else node


def _builtin_call(name: str, number: int) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [ast.Constant(number)], [])


def have_same_variables(code: CodeType, other: CodeType) -> bool:
    """Tell whether two modules of the same functions have the same variables in each of them."""
    inner, others = _inner_codes(code), _inner_codes(other)
    return (
        _variables(code) == _variables(other)
        and len(inner) == len(others)
        and all(have_same_variables(one, another) for one, another in zip(inner, others, strict=True))
    )


def variables_of(module: CodeType, function: str, first_line: int) -> frozenset[str]:
    """Return the variables of the function of this name that begins in this line."""
    for code in all_codes(module):
        if (code.co_name, code.co_firstlineno) == (function, first_line):
            return frozenset().union(*_variables(code))
    return frozenset()


def _variables(code: CodeType) -> tuple[tuple[str, ...], ...]:
    return code.co_varnames, code.co_cellvars, code.co_freevars


def _inner_codes(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def all_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code and those inside of it."""
    yield code
    for inner in _inner_codes(code):
        yield from all_codes(inner)


@dataclass(frozen=True, slots=True)
class Placed:
    """The line where a stop was put, the first if there are several; or None, and the problem."""

    line: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Spot:
    """A statement, or the head of a compound statement, with its lines and the list that holds it."""

    first: int
    last: int
    body: list[ast.stmt]
    before: ast.stmt
    owner: ast.AST

    def __contains__(self, line: int) -> bool:
        return self.first <= line <= self.last


def compile_with(
    source: bytes, path: str, stops: Sequence[tuple[int, StopAt | StopIn]]
) -> tuple[CodeType, list[Placed]]:
    """Return the module's code with a call for each numbered stop, and where each stop was put.

    Raise what ``compile`` raises if the source is not valid.
    """
    if not stops:
        return compile(source, path, "exec", dont_inherit=True), []
    plain = None
    if any(isinstance(stop, StopAt) and stop.condition is not None for _, stop in stops):
        plain = compiled(source, path)
    code, placed = _compile_with(source, path, stops, plain)
    if plain is not None and not have_same_variables(plain, code):
        # A condition names a variable of an outer function, which would become a variable of the inner one, too.
        code, placed = _compile_with(source, path, stops, None)
    return code, placed


def _compile_with(
    source: bytes, path: str, stops: Sequence[tuple[int, StopAt | StopIn]], plain: CodeType | None
) -> tuple[CodeType, list[Placed]]:
    """Return the code and places; with ``plain``, the code without stops, conditions become part of functions."""
    tree = parsed(source, path)
    spots = list(_spots(tree))
    scopes = dict(_scopes(tree, None)) if plain is not None else {}
    placed = []
    for number, stop in stops:
        if isinstance(stop, StopIn):
            placed.append(_place_in(tree, stop.function, number))
            continue
        spot = _spot_of(spots, stop.line)
        if spot is None:
            placed.append(_no_line(source, stop.line))
            continue
        condition = _part_of(scopes.get(id(spot.body)), plain, stop.condition)
        _place_at(spot, _Stop(number, *condition))
        placed.append(Placed(spot.first))
    return compiled(tree, path), placed


@dataclass(frozen=True, slots=True)
class _Stop:
    """The number of a stop, and its condition if that becomes part of the function with these variables."""

    number: int
    condition: str | None = None
    variables: frozenset[str] = frozenset()


def _part_of(scope: ast.AST | None, plain: CodeType | None, condition: str | None) -> tuple[str | None, frozenset[str]]:
    """Return the condition and the variables of its function; neither if the condition can't be part of the code."""
    if plain is None or condition is None or isinstance(scope, ast.ClassDef):
        return None, frozenset()
    if isinstance(scope, _FUNCTIONS):
        return condition, variables_of(plain, scope.name, _first_line(scope))
    return condition, frozenset()


def _scopes(node: ast.AST, scope: ast.AST | None) -> Iterator[tuple[int, ast.AST | None]]:
    """Yield the id of each list of statements, and the function or class that it belongs to."""
    inner = node if isinstance(node, _DEFINITIONS) else scope
    for value in vars(node).values():
        if isinstance(value, list):
            yield id(value), inner
            for child in value:
                if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                    yield from _scopes(child, inner)


def _place_at(spot: _Spot, stop: _Stop) -> None:
    _insert(spot.body, spot.before, spot.first, stop)
    if isinstance(spot.owner, _LOOPS):
        _stop_at_each_turn(spot.owner, spot.first, stop)


def _place_in(tree: ast.Module, function: str, number: int) -> Placed:
    first = None
    for name, node in list(_functions(tree, "")):
        if name != function:
            continue
        before = _first_with_code(node)
        line = _first_line(before) if before is not None else node.body[0].lineno
        _insert(node.body, before, line, _Stop(number))
        first = line if first is None else first
    return Placed(first, "" if first is not None else f"it has no function {function}")


def statement_at(source: bytes, path: str, line: int, within: frozenset[int]) -> Placed:
    """Return where a breakpoint for this line stops: at its statement, and at the function's first one for its head.

    It stops inside of a statement only at the lines ``within``, which have code of their own.

    Raise what ``ast.parse`` raises if the source is not valid.
    """
    tree = parsed(source, path)
    spot = _spot_of(list(_spots(tree)), line)
    if spot is None:
        return _no_line(source, line)
    if isinstance(spot.owner, _FUNCTIONS):
        # The line of a `def` runs once, when its module is loaded; the call of the function is meant.
        inner = _first_with_code(spot.owner)
        return Placed(_first_line(inner) if inner is not None else spot.first)
    return Placed(line if line in within else spot.first)


def _no_line(source: bytes, line: int) -> Placed:
    lines = source.count(b"\n") + (not source.endswith(b"\n"))
    return Placed(None, f"it has {lines} lines" if line > lines else f"no line from {line} on has code")


def _first_with_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt | None:
    return next((statement for statement in function.body if _has_code(statement)), None)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield each function with its name inside the module: ``Class.method``, ``outer.inner``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _DEFINITIONS):
            if isinstance(child, _FUNCTIONS):
                yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _functions(child, prefix)


def _spot_of(spots: list[_Spot], line: int) -> _Spot | None:
    """Return the innermost statement of this line, or else the first statement after it."""
    here = [spot for spot in spots if line in spot]
    if not here:
        return min((spot for spot in spots if spot.first > line), key=lambda spot: spot.first, default=None)
    start = max(spot.first for spot in here)
    begun = [spot for spot in here if spot.first == start]
    # In `def f(): g()` the stop is at `g()`; in `if x: g()` it is at the whole `if`.
    inner = [spot for spot in begun if not isinstance(spot.owner, _DEFINITIONS)]
    return inner[0] if inner else begun[0]


def _spots(tree: ast.Module) -> Iterator[_Spot]:
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                yield from (_spot(statement, body) for statement in body if _has_code(statement))
        if isinstance(node, ast.ExceptHandler):
            last = node.type.end_lineno if node.type is not None else None
            yield _Spot(node.lineno, last or node.lineno, node.body, node.body[0], node)
        elif isinstance(node, ast.match_case):
            yield _Spot(node.pattern.lineno, _last_of_head(node.pattern, node.body), node.body, node.body[0], node)


def _spot(statement: ast.stmt, body: list[ast.stmt]) -> _Spot:
    inner = getattr(statement, "body", None) or getattr(statement, "cases", None)
    first = _first_line(statement)
    last = statement.end_lineno or first
    if isinstance(inner, list):
        last = first if isinstance(statement, ast.Try) else _last_of_head(statement, inner)
    return _Spot(first, last, body, statement, statement)


def _last_of_head(node: ast.stmt | ast.pattern, body: Sequence[ast.AST]) -> int:
    """Return the last line of a compound statement's head; comments below the head belong to the body."""
    expressions = [
        child.end_lineno or child.lineno
        for child in ast.walk(node)
        if isinstance(child, (ast.expr, ast.pattern, ast.arg)) and child.lineno < _first_of(body[0])
    ]
    # A line with only a closing bracket and the colon doesn't count as part of the head.
    return min(max([node.lineno, *expressions]), max(node.lineno, _first_of(body[0]) - 1))


def _first_of(node: ast.AST) -> int:
    return node.pattern.lineno if isinstance(node, ast.match_case) else _first_line(cast(ast.stmt, node))


def _first_line(statement: ast.stmt) -> int:
    decorators: list[int] = [decorator.lineno for decorator in getattr(statement, "decorator_list", ())]
    return min([statement.lineno, *decorators])


def _has_code(statement: ast.AST) -> bool:
    """Tell whether a statement runs as code; docstrings and declarations don't."""
    if not isinstance(statement, ast.stmt) or isinstance(statement, (ast.Global, ast.Nonlocal)):
        return False
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    return not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")


def _insert(body: list[ast.stmt], before: ast.stmt | None, line: int, stop: _Stop) -> None:
    """Put a call before this statement of the body, or at the end of the body if it is None."""
    column = before.col_offset if before is not None else body[-1].col_offset
    index = next((i for i, statement in enumerate(body) if statement is before), len(body))
    body.insert(index, _call(line, column, stop))


def _call(line: int, column: int, stop: _Stop) -> ast.stmt:
    if stop.condition is not None:
        statement = inlined(stop.condition, stop.number, stop.variables, line, column)
        if statement is not None:
            return statement
    call = ast.Expr(_builtin_call(CALL, stop.number))
    for node in ast.walk(call):
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = column
    return call


def _stop_at_each_turn(loop: ast.For | ast.AsyncFor | ast.While, line: int, stop: _Stop) -> None:
    """Put calls at the end of a loop and before each ``continue``: a breakpoint at the head is hit each turn, too."""
    for body, statement in list(_continues(loop.body)):
        _insert(body, statement, line, stop)
    loop.body.append(_call(line, loop.col_offset, stop))


def _continues(body: list[ast.stmt]) -> Iterator[tuple[list[ast.stmt], ast.stmt]]:
    """Yield each ``continue`` of this loop, not of inner loops, with the list that holds it."""
    for statement in body:
        if isinstance(statement, ast.Continue):
            yield body, statement
        elif isinstance(statement, _LOOPS):
            # A `continue` in the `else:` of an inner loop belongs to the outer loop.
            yield from _continues(statement.orelse)
        elif not isinstance(statement, _DEFINITIONS):
            for part in _parts(statement):
                yield from _continues(part)


def _parts(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    holders = (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ()))
    for holder in holders:
        for field in ("body", "orelse", "finalbody"):
            part = getattr(holder, field, None)
            if isinstance(part, list):
                yield part
