"""Evaluate what a user types in an IDE at a frame, and assign to what a list of variables has shown."""

from __future__ import annotations

from typing import Any

from dbg_agent.inspection.namespaces import Namespaces
from dbg_agent.stop.capture import Capture, talking_to

TYPED = "<dbg-attach eval>"
"""The file name of typed code in tracebacks and warnings, as in a terminal: an IDE shows the same text."""


class Evaluation:
    """One text and its value; what it raises comes out of :meth:`run`."""

    def __init__(self, names: Namespaces, *, runs: bool = False) -> None:
        self._names = names
        self._runs = runs
        self._printed = Capture()
        self.is_expression = True

    @property
    def printed(self) -> str:
        """Return what was printed, with the number of characters that were too many."""
        lost = self._printed.lost
        return f"{self._printed.text}\n[{lost} characters more are lost]\n" if lost else self._printed.text

    def run(self, text: str) -> Any:
        """Return the value of an expression; None of a statement, which is run only if that was allowed."""
        text = text.strip()
        try:
            code = compile(text, TYPED, "eval")
        except SyntaxError:
            if not self._runs:
                raise
            code = compile(text, TYPED, "exec")
            self.is_expression = False
        with talking_to(self._printed):
            if self.is_expression:
                return eval(code, self._names.together())  # noqa: S307 - the user asks for it
            try:
                exec(code, self._names.globals, self._names.locals)  # noqa: S102 - the user asks for it
            finally:
                self._names.keep()
        return None
