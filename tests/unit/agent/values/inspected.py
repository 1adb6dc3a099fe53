"""What an IDE sees of frames of this process, asked without a rank and a network."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from hypothesis import strategies as st

from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.values.evaluation import Namespaces
from dbg_agent.values.inspector import Inspector
from dbg_wire.records.inspection import (
    MAX_VARIABLE_TEXT,
    Inspected,
    Inspection,
    InspectionKind,
    Variable,
    cut_to_fit,
    inspected_in,
)
from dbg_wire.records.record import checked
from tests.unit.agent.pdb_driver import call_later

PLENTY = 60.0
"""Seconds within which everything here is described."""

ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
KEYS = st.booleans() | st.integers() | st.text(max_size=5) | st.tuples(st.integers(), st.text(max_size=3))


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return containers of these values, and sets of keys."""
    lists = st.lists(inner, max_size=4)
    sets = st.sets(KEYS, max_size=4) | st.frozensets(KEYS, max_size=4)
    return lists | lists.map(tuple) | st.dictionaries(KEYS, inner, max_size=4) | sets


VALUES = st.recursive(ATOMS, containers, max_leaves=12)


def _never(_seconds: float, _call: Callable[[], None]) -> None:
    """Call nothing."""


class Sights:
    """Looks at one frame."""

    def __init__(self, frame: FrameType, seconds: float = PLENTY, *, keeps_time: bool = False) -> None:
        interruptible = Interruptible(call_later if keeps_time else _never)
        self.inspector = Inspector(interruptible, lambda: [(frame, frame.f_lineno)], lambda: None)
        self._frame, self._seconds = frame, seconds

    def look(self, **question: Any) -> Inspected:
        """Return the answer, as it comes over the wire."""
        names = Namespaces(self._frame)
        rows = cut_to_fit(self.inspector.answer(checked(Inspection(**question)), names, self._seconds))
        return inspected_in(map(checked, rows))

    def parts(self, of: Variable | None = None, **more: Any) -> dict[str, Variable]:
        """Return the parts of a variable, or the variables of the frame, by their names."""
        found = self.look(sight=InspectionKind.PARTS, handle=of.handle if of is not None else 0, **more).variables
        named = {one.name: one for one in found}
        assert len(named) == len(found), found
        return named

    def value(self, text: str) -> Variable:
        """Return the value of an expression."""
        (found,) = self.look(sight=InspectionKind.VALUE, text=text).variables
        return found

    def assign(self, name: str, text: str, of: Variable | None = None) -> Variable:
        """Assign to a variable and return it."""
        handle = of.handle if of is not None else 0
        (found,) = self.look(sight=InspectionKind.ASSIGN, name=name, text=text, handle=handle).variables
        return found


def cut(text: str, most: int = MAX_VARIABLE_TEXT) -> str:
    """Return a text as a list of variables has it, or cut to so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
