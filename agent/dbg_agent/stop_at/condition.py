"""The condition of a stop, as an ``if`` in the function's own bytecode, since nearly always it is false; pure.

A condition that would change which variables the function has stays out of it, and is evaluated in its frame instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType

PASSED = "__dbg_stop_point_passed__"
"""The builtin that says whether the condition of a numbered stop is to be evaluated."""

RAISED = "__dbg_stop_point_raised__"
"""The builtin that says, as an ``except`` is asked, whether it was the condition that raised."""

HELD = "__dbg_stop_point_held__"
"""The builtin that stops where the condition is true."""

RANK = "__dbg_stop_point_rank__"
"""The builtin that returns this process's rank where the program has no ``rank`` of its own."""

_WITH_VARIABLES = (ast.NamedExpr, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Expressions that have variables of their own or set those of the function."""


def inlined(text: str, number: int, variables: frozenset[str], line: int, column: int) -> ast.stmt | None:
    """Return the statement that stops if the condition is true or raises; None if it can't be one.

    ``variables`` are those that the function has, or has from the functions round it.
    """
    condition = ast.parse(text.strip(), mode="eval").body
    if any(isinstance(node, _WITH_VARIABLES) for node in ast.walk(condition)):
        return None
    if "rank" not in variables:
        condition = _Ranked().visit(condition)
    asked = ast.BoolOp(ast.And(), [_call(PASSED, number), condition])
    statement = ast.Try(
        # Without `pass`, before Python 3.12, the jump behind has no line, and a debugger sees the program's line twice.
        body=[ast.If(asked, [ast.Expr(_call(HELD, number))], []), ast.Pass()],
        handlers=[ast.ExceptHandler(_call(RAISED, number), None, [ast.Expr(_call(HELD, number))])],
        orelse=[],
        finalbody=[],
    )
    for node in ast.walk(statement):
        if isinstance(node, (ast.stmt, ast.expr, ast.excepthandler, ast.keyword)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = column
    return statement


class _Ranked(ast.NodeTransformer):
    """Put a call in the place of ``rank``."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Call(ast.Name(RANK, ast.Load()), [], []) if node.id == "rank" else node


def _call(name: str, number: int) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [ast.Constant(number)], [])


def have_same_variables(code: CodeType, other: CodeType) -> bool:
    """Tell whether two modules of the same functions have the same variables in each of them."""
    inner, others = _functions(code), _functions(other)
    return (
        _variables(code) == _variables(other)
        and len(inner) == len(others)
        and all(have_same_variables(one, another) for one, another in zip(inner, others, strict=True))
    )


def variables_of(module: CodeType, function: str, first_line: int) -> frozenset[str]:
    """Return the variables of the function that begins in this line."""
    for code in _all_codes(module):
        if (code.co_name, code.co_firstlineno) == (function, first_line):
            return frozenset().union(*_variables(code))
    return frozenset()


def _variables(code: CodeType) -> tuple[tuple[str, ...], ...]:
    return code.co_varnames, code.co_cellvars, code.co_freevars


def _functions(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in _functions(code):
        yield from _all_codes(inner)
