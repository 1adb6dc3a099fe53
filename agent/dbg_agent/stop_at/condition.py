"""The condition of a stop, as an ``if`` in the function's own bytecode: a false condition must cost little. Pure.

A condition that would change the function's variables is evaluated in the function's frame instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType

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


def inlined(text: str, number: int, variables: frozenset[str], line: int, column: int) -> ast.stmt | None:
    """Return the statement that stops if the condition is true or raises; None if the condition has or sets variables.

    ``variables`` are the function's variables, with those that it uses of the functions around it.
    """
    condition = ast.parse(text.strip(), mode="eval").body
    if any(isinstance(node, _WITH_VARIABLES) for node in ast.walk(condition)):
        return None
    if "rank" not in variables:
        condition = _Ranked().visit(condition)
    asked = ast.BoolOp(ast.And(), [_call(PASSED, number), condition])
    statement = ast.Try(
        # Before Python 3.12 the jump after the `if` has no line without `pass`: a debugger would see this line twice.
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
    """Replace ``rank`` by a call."""

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
    """Return the variables of the function of this name that begins in this line."""
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
