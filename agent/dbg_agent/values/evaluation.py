"""The variables of a frame, with evaluation and assignment for an IDE."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from types import FrameType
from typing import Any

from dbg_agent.frames.capture import Capture, redirected
from dbg_agent.frames.variables import write_back
from dbg_agent.values.children import Child, Children, in_order
from dbg_wire.records.inspection import Scope

TYPED = "<dbg-attach eval>"
"""The file name of typed code in tracebacks and warnings. It is that of the command ``dbg-attach eval``, so an IDE
shows the same text as a terminal."""


class Namespaces:
    """The globals and locals of one frame.

    ``known_locals`` are the locals that an open debugger keeps for this frame, or None if no debugger shows it. Before
    Python 3.13 a new read of ``f_locals`` would undo assignments in the debugger.
    """

    def __init__(self, frame: FrameType, known_locals: MutableMapping[str, Any] | None = None) -> None:
        self.frame = frame
        self.globals = frame.f_globals
        self.locals: MutableMapping[str, Any] = frame.f_locals if known_locals is None else known_locals

    def together(self) -> dict[str, Any]:
        """Return globals and locals as one dict.

        If ``eval`` got two dicts, a comprehension or lambda in the expression would not see the locals.
        """
        return {**self.globals, **self.locals}

    def children(self, scope: Scope) -> Children:
        """Return the variables of a scope."""
        if scope is Scope.GLOBALS:
            return Children([self._child(self.globals, self._put_global, name) for name in in_order(self.globals)])
        names = filter(_is_free, in_order(self.locals))
        return Children([self._child(self.locals, self._put_local, name) for name in names])

    def keep(self) -> None:
        """Write assignments to the locals back to the frame, as Python does when a trace function returns."""
        write_back(self.frame, self.locals)

    def _child(self, values: Mapping[str, Any], put: Callable[[str, Any], None], name: str) -> Child:
        is_seen = _is_free(name) and (values is self.locals or name not in self.locals)
        return Child(name, partial(values.__getitem__, name), name if is_seen else "", partial(put, name))

    def _put_global(self, name: str, value: Any) -> None:
        self.globals[name] = value

    def _put_local(self, name: str, value: Any) -> None:
        self.locals[name] = value
        self.keep()


class Evaluation:
    """The evaluation of one typed text; its exceptions propagate from :meth:`run`."""

    def __init__(self, names: Namespaces, *, runs: bool = False) -> None:
        self._names = names
        self._runs = runs
        self._printed = Capture()
        self.is_expression = True

    @property
    def printed(self) -> str:
        """The printed text, with the number of characters that did not fit."""
        lost = self._printed.lost
        return f"{self._printed.text}\n[{lost} more characters are lost]\n" if lost else self._printed.text

    def run(self, text: str) -> Any:
        """Return the value of an expression, or run a statement and return None.

        A statement is an error unless ``runs`` is set.
        """
        text = text.strip()
        try:
            code = compile(text, TYPED, "eval")
        except SyntaxError:
            if not self._runs:
                raise
            code = compile(text, TYPED, "exec")
            self.is_expression = False
        with redirected(self._printed):
            if self.is_expression:
                return eval(code, self._names.together())  # noqa: S307 - the user asks for it
            try:
                exec(code, self._names.globals, self._names.locals)  # noqa: S102 - the user asks for it
            finally:
                self._names.keep()
        return None


def _is_free(name: str) -> bool:
    """Return True if a text can be used as a name in an expression."""
    return name.isidentifier() and not keyword.iskeyword(name)
