"""The variables of one answer: each with its text, in time even if the ``repr`` of one of them never ends."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.values.children import Child, Children, LazyChild, Surveys, children_of, name_of
from dbg_agent.values.describe import beginning_of
from dbg_agent.values.record import sentence_of
from dbg_wire.records.inspection import MAX_VARIABLE_TEXT, Variable
from dbg_wire.records.record import fitted

MAX_NAME = 200
"""Characters of a variable's name and of its class."""

NOT_READ = "(read when it is opened)"
"""The text of a child that is not read before somebody asks for it, such as a property."""

SHARE = 0.5
"""Part of the time that is left which one value may take."""

MAX_EXPRESSION = 1000
"""Characters of an expression: deeper children get none."""

KEY_SECONDS = 0.2
"""Seconds for the text of one key of a mapping."""

MAX_HANDLES = 10_000
"""Values that are kept: as many as an IDE lists in a hundred full pages; the oldest are forgotten first."""


class NoSuchHandle(Exception):
    """A handle without a value; the text says why."""


class Handles:
    """Values with their expressions. All methods run in the stopped thread, so finalizers of values run there, too."""

    def __init__(self, most: int = MAX_HANDLES) -> None:
        self._most = most
        self._values: dict[int, tuple[Any, str]] = {}
        self._last = 0

    def of(self, value: Any, expression: str) -> int:
        """Return a new handle of a value."""
        if len(self._values) >= self._most:
            del self._values[next(iter(self._values))]
        self._last += 1
        self._values[self._last] = (value, expression)
        return self._last

    def find(self, handle: int) -> tuple[Any, str]:
        """Return the value of a handle and its expression; raise NoSuchHandle."""
        if handle not in self._values:
            raise NoSuchHandle(
                f"value {handle} is no longer at hand: the rank has run on, or more than {self._most:,} values were "
                "listed since; list the variables again"
            )
        return self._values[handle]

    def clear(self) -> None:
        """Forget all values, since the thread goes on."""
        # A finalizer may do anything, so the table is whole before one runs.
        values, self._values = self._values, {}
        values.clear()


class Listing:
    """Makes variables of children, and keeps what it has learned of classes for the length of a stop."""

    def __init__(self, interruptible: Interruptible, handles: Handles) -> None:
        self._interruptible = interruptible
        self._handles = handles
        self._surveys: Surveys = {}

    def children(self, value: Any) -> Children:
        """Return the children of a value."""
        return children_of(value, self._surveys, _name_of_key)

    def forget(self) -> None:
        """Forget what is known of classes."""
        self._surveys = {}

    def variables(self, children: Iterable[Child], parent: str, seconds: float) -> list[Variable]:
        """Return the variables of these children of what ``parent`` yields, within about ``seconds``.

        A value that takes more than its share is told as such, and the next ones are looked at all the same.
        """
        made: list[Variable] = []
        waiting = list(children)[::-1]
        end = time.monotonic() + seconds
        while waiting:
            self._some(waiting, made, parent, end)
        return made

    def _some(self, waiting: list[Child], made: list[Variable], parent: str, end: float) -> None:
        """Look at children until all are done or one takes too long; the next one is the last of ``waiting``."""
        left = end - time.monotonic()
        if left <= 0:
            made.extend(self._untold(child, parent, "not looked at: the time is over") for child in waiting[::-1])
            waiting.clear()
            return
        share, total = left * SHARE, len(made) + len(waiting)

        def look() -> None:
            while waiting:
                made.append(self._variable(waiting[-1], parent, share))
                waiting.pop()

        if self._interruptible.within(share, look):
            return
        if len(made) + len(waiting) > total:
            # The interrupt came after the variable was added, and before its child was removed.
            waiting.pop()
        elif waiting:
            made.append(self._untold(waiting.pop(), parent, f"interrupted after {share:.3g} s"))

    def _variable(self, child: Child, parent: str, seconds: float) -> Variable:
        if child.is_lazy:
            lazy = LazyChild(replace(child, is_lazy=False))
            handle = self._handles.of(lazy, parent)
            return self._untold(child, parent, "").replace(text=NOT_READ, handle=handle, named=1, is_lazy=True)
        try:
            value = child.read()
        except Exception as error:
            return self._untold(child, parent, sentence_of(error))
        return self.row_of(child, parent, value, beginning_of(value, most=MAX_VARIABLE_TEXT, seconds=seconds))

    def row_of(self, child: Child, parent: str, value: Any, text: str) -> Variable:
        """Return a variable with this value and text."""
        expression = expression_of(parent, child)
        try:
            children = self.children(value)
        except Exception:
            # A value that can't be opened, such as a range longer than any list, is still shown.
            children = Children()
        named, indexed = len(children.named), children.size
        return fitted(
            Variable,
            name=child.name[:MAX_NAME],
            text=text,
            type=name_of(type(value))[:MAX_NAME],
            expression=expression,
            handle=self._handles.of(value, expression) if named or indexed else 0,
            named=named,
            indexed=indexed,
            is_fixed=child.write is None,
        )

    def _untold(self, child: Child, parent: str, why: str) -> Variable:
        return fitted(
            Variable,
            name=child.name[:MAX_NAME],
            text=f"<{why}>",
            expression=expression_of(parent, child),
            is_fixed=child.write is None,
        )


def expression_of(parent: str, child: Child) -> str:
    """Return the expression of a child of what ``parent`` yields; empty if it has none. Variables have no parent."""
    if not child.step or (not parent and child.step.startswith((".", "["))):
        return ""
    text = parent + child.step
    return text if len(text) <= MAX_EXPRESSION else ""


def _name_of_key(key: Any) -> str:
    return repr(key) if type(key) is int else beginning_of(key, most=MAX_NAME, seconds=KEY_SECONDS)
