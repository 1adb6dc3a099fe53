"""The call that a frame is in: the expression of the called function or of the ``with`` block, from the source.

Names, attributes, and items whose key is a constant or a variable are resolved to their values. Arithmetic on integers
and joins of strings or paths are computed. Any other expression, such as a call's result, stays unknown, because no
code of the program is run.
"""

from __future__ import annotations

import ast
import operator
import os
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from opcode import opname
from types import BuiltinFunctionType, FrameType, MappingProxyType
from typing import Any, NamedTuple

from dbg_agent.frames.source import Spot, mangled, operation, span_of, spot_of
from dbg_agent.frames.variables import CO_OPTIMIZED, UNKNOWN, attribute, class_of, item, local, variable

_CALLS = ("CALL", "PRECALL", "BEFORE_WITH")
_MAY_WAIT = (*_CALLS, "IMPORT", "WITH_EXCEPT", "FOR_ITER", "BINARY", "STORE_ATTR", "STORE_SUBSCR")
"""Prefixes of the names of instructions that may run C code for a long time."""

_MAX_WHOLE = 1 << 63
"""Limit for integers in computations: rank numbers, tags and counts are smaller."""

_MAX_TEXT, MAX_PATH = 200, 4096
"""Maximum number of characters of an expression, and of a computed string."""


class Expression(NamedTuple):
    """An expression's text and value. For an attribute, also the text and value of its object, and its name."""

    text: str
    value: Any
    owner_text: str = ""
    owner: Any = UNKNOWN
    name: str = ""


UNRESOLVED = Expression("", UNKNOWN)
"""An expression that consists of more than names, attributes and items, so it has no text and value."""


class MadePath(NamedTuple):
    """Text of the pathlib path that an expression such as ``folder / name`` would create; no path object exists yet."""

    text: str


class CallSite(NamedTuple):
    """The call that a frame is in, with the values of its arguments. A value that can't be read is UNKNOWN.

    ``is_with`` is True for the entry of a ``with`` block. ``is_whole`` is True if ``positional`` and ``named`` contain
    all arguments. ``made`` is the call that returned the object whose method is called, as in
    ``group.broadcast(tensor).wait()``.
    """

    called: Expression
    is_with: bool = False
    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = MappingProxyType({})
    is_whole: bool = True
    made: CallSite | None = None

    def argument(self, position: int, name: str, default: Any = UNKNOWN) -> Any:
        """Return an argument by name or position, ``default`` if it is missing, UNKNOWN if it can't be read."""
        if name in self.named:
            return self.named[name]
        if position < len(self.positional):
            return self.positional[position]
        return default if self.is_whole else UNKNOWN


def is_calling(frame: FrameType) -> bool:
    """Return True if the frame's current instruction may run C code."""
    return operation(frame).startswith(_MAY_WAIT)


def call_site(frame: FrameType, *, reads: bool = True) -> CallSite | None:
    """Return the call that a frame is in, or None. The text is empty if the called expression can't be resolved.

    A C function has no frame, so its name and arguments are only in the caller's code. Without ``reads`` no local
    variable is read, so values are UNKNOWN.
    """
    if not operation(frame).startswith(_CALLS):
        return None
    spot = spot_of(frame)
    if spot is None:
        return CallSite(UNRESOLVED, is_whole=False)
    values = Values(frame, reads)
    entered = entered_by(spot)
    if entered is not None:
        return CallSite(values.expression(entered), is_with=True)
    return values.call(spot.node) if isinstance(spot.node, ast.Call) else CallSite(UNRESOLVED, is_whole=False)


def entered_by(spot: Spot) -> ast.expr | None:
    """Return the expression of the ``with`` block that a frame is entering or leaving, or None."""
    node = spot.node
    if isinstance(node, (ast.With, ast.AsyncWith)):
        # Before Python 3.13, the instruction has the position of the whole `with` statement.
        return node.items[entered_items(spot) - 1].context_expr
    parent = spot.tree.parents.get(node)
    is_entered = isinstance(parent, ast.withitem) and node is parent.context_expr and not isinstance(node, ast.Call)
    return node if is_entered and isinstance(node, ast.expr) else None


def entered_items(spot: Spot) -> int:
    """Return the number of items of a ``with`` statement that the frame has started to enter."""
    code, whole = spot.frame.f_code, span_of(spot.node)
    positions = islice(code.co_positions(), spot.frame.f_lasti // 2 + 1)
    begun = (opname[code.co_code[2 * at]] for at, span in enumerate(positions) if span == whole)
    return sum(name.startswith("BEFORE_") for name in begun)


class Values:
    """Evaluator of expressions in a frame's code."""

    def __init__(self, frame: FrameType, reads: bool, known: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._frame, self._reads, self._known = frame, reads, known

    def call(self, node: ast.Call) -> CallSite:
        """Return the call site of a call, with its arguments."""
        plain = next((at for at, one in enumerate(node.args) if isinstance(one, ast.Starred)), len(node.args))
        named = {one.arg: self.of(one.value) for one in node.keywords if one.arg is not None}
        is_whole = plain == len(node.args) and len(named) == len(node.keywords)
        positional = tuple(map(self.of, node.args[:plain]))
        is_made = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call)
        made = self.call(node.func.value) if is_made else None  # type: ignore[attr-defined]
        return CallSite(_bound(self.expression(node.func)), False, positional, named, is_whole, made)

    def expression(self, node: ast.expr) -> Expression:
        """Return the text and value of an expression, or UNRESOLVED."""
        if not _is_plain(node):
            return UNRESOLVED._replace(name=node.attr) if isinstance(node, ast.Attribute) else UNRESOLVED
        text, value = ast.unparse(node)[:_MAX_TEXT], self.of(node)
        if not isinstance(node, ast.Attribute):
            return Expression(text, value)
        return Expression(text, value, ast.unparse(node.value)[:_MAX_TEXT], self.of(node.value), node.attr)

    def of(self, node: ast.expr | None) -> Any:
        """Return the value of an expression, or UNKNOWN if that needs code of the program."""
        try:
            work_out = _OPERATIONS.get(type(node))
            return work_out(self, node) if work_out is not None else UNKNOWN
        except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError):
            return UNKNOWN

    def _name(self, node: ast.Name) -> Any:
        if node.id in self._known:
            return self._known[node.id]
        code = self._frame.f_code
        name, value = mangled(code, node.id), UNKNOWN
        is_local = name in code.co_varnames or name in code.co_cellvars or name in code.co_freevars
        if self._reads and (is_local or not code.co_flags & CO_OPTIMIZED):
            value = local(self._frame, name)
        return variable(self._frame, name) if value is UNKNOWN and not is_local else value

    def _attribute(self, node: ast.Attribute) -> Any:
        owner = self.of(node.value)
        return attribute(owner, mangled(self._frame.f_code, node.attr)) if owner is not UNKNOWN else UNKNOWN

    def _item(self, node: ast.Subscript) -> Any:
        return item(self.of(node.value), self.of(node.slice))

    def _negative(self, node: ast.UnaryOp) -> Any:
        value = self.of(node.operand)
        if isinstance(node.op, ast.Not) or type(value) not in (int, float):
            return UNKNOWN
        return -value if isinstance(node.op, ast.USub) else UNKNOWN

    def _operation(self, node: ast.BinOp) -> Any:
        first, last = self.of(node.left), self.of(node.right)
        if isinstance(node.op, ast.Div):
            texts = text_of(first), text_of(last)
            is_path_joined = isinstance(first, MadePath) or is_path(first)
            return MadePath(os.path.join(*texts)) if is_path_joined and all(texts) else UNKNOWN  # noqa: PTH118
        if type(first) is type(last) is str:
            return first + last if isinstance(node.op, ast.Add) and len(first) + len(last) <= MAX_PATH else UNKNOWN
        return _whole_number(_ARITHMETIC[type(node.op)](_whole_number(first), _whole_number(last)))

    def _joined(self, node: ast.JoinedStr) -> Any:
        pieces = [self._formatted(one) if isinstance(one, ast.FormattedValue) else self.of(one) for one in node.values]
        return "".join(pieces)[:MAX_PATH] if all(type(piece) is str for piece in pieces) else UNKNOWN

    def _formatted(self, node: ast.FormattedValue) -> Any:
        value = self.of(node.value)
        if node.format_spec is not None or node.conversion != -1:
            return UNKNOWN
        return str(value) if type(value) is int else text_of(value) or UNKNOWN

    def _made(self, node: ast.Call) -> Any:
        """Return the result of a call that makes a path from known paths, or that makes a range."""
        called, given = self.of(node.func), [self.of(one) for one in node.args]
        if called is range and not node.keywords:
            return range(*map(_whole_number, given))
        texts = [text_of(one) for one in given]
        if not texts or not all(texts) or node.keywords:
            return UNKNOWN
        joined = os.path.join(*texts)  # noqa: PTH118 - a path of the program's, as text
        if called is os.path.join:
            return joined
        if called is str or called is os.fspath:
            return texts[0]
        pathlib = sys.modules.get("pathlib")
        if pathlib is not None and called is vars(pathlib).get("Path"):
            return MadePath(joined)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "joinpath":
            owner = text_of(self.of(node.func.value))
            return MadePath(os.path.join(owner, joined)) if owner else UNKNOWN  # noqa: PTH118
        return UNKNOWN


_OPERATIONS: Mapping[type, Callable[[Values, Any], Any]] = {
    ast.Constant: lambda _values, node: node.value,
    ast.Name: Values._name,
    ast.Attribute: Values._attribute,
    ast.Subscript: Values._item,
    ast.UnaryOp: Values._negative,
    ast.BinOp: Values._operation,
    ast.JoinedStr: Values._joined,
    ast.Call: Values._made,
    **dict.fromkeys((ast.List, ast.Tuple), lambda values, node: tuple(map(values.of, node.elts))),
}

_ARITHMETIC: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.FloorDiv: operator.floordiv,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.Sub: operator.sub,
}


def _whole_number(value: Any) -> int:
    if type(value) is not int or abs(value) >= _MAX_WHOLE:
        raise ValueError
    return value


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_plain(node.value) and isinstance(node.slice, (ast.Constant, ast.Name))
    return _is_plain(node.value) if isinstance(node, ast.Attribute) else isinstance(node, ast.Name)


def _bound(called: Expression) -> Expression:
    """If the called function is a bound C method, add the method's object and name to the expression."""
    if type(called.value) is not BuiltinFunctionType:
        return called
    owner = called.value.__self__
    return called._replace(owner_text=called.owner_text or called.text, owner=owner, name=called.value.__name__)


def is_path(value: object) -> bool:
    """Return True if the value is a pathlib path."""
    return class_of(value) in (("pathlib", "PosixPath"), ("pathlib._local", "PosixPath"))


def text_of(value: Any) -> str:
    """Return the text of a path or string; empty if it is unknown."""
    if isinstance(value, MadePath):
        return value.text
    if not is_path(value):
        return value if type(value) is str else ""
    # A path stores its text after the first request for it. Until then it has only the parts that it was made from.
    text = attribute(value, "_str")
    parts = next((one for name in ("_raw_paths", "_parts") if type(one := attribute(value, name)) is list), [])
    if type(text) is not str and parts and all(type(part) is str for part in parts):
        text = os.path.join(*parts)  # noqa: PTH118 - as pathlib does
    return text if type(text) is str else ""
