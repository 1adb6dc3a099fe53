"""Watch for NaN and infinity in values of an expression at a line, for programs without modules of torch."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from types import FrameType

from dbg_agent.breakpoints.conditional_stop import condition_code, evaluate_at
from dbg_agent.breakpoints.startup_stops import StartupStop
from dbg_agent.numbers.hooks import Found
from dbg_agent.numbers.tensors import wrong_value
from dbg_wire.records.numbers import Origin, Suspect, WrongNumber
from dbg_wire.records.record import clamp
from dbg_wire.records.stop_points import StopAt


class ValuesAtLine(StartupStop):
    """A line, and the values to look at before it runs. ``arrived`` is called with each frame that is there."""

    def __init__(self, place: StopAt, arrived: Callable[[ValuesAtLine, FrameType], None]) -> None:
        super().__init__(place)
        self.reach = partial(arrived, self)  # type: ignore[method-assign]
        self.found: Found
        """The wrong value that :meth:`is_wrong` has found."""
        tree = ast.parse(place.condition or "", mode="eval").body
        self._texts = [ast.unparse(one) for one in (tree.elts if isinstance(tree, ast.Tuple) else [tree])]

    def is_wrong(self, frame: FrameType, rank: int, step: int) -> bool:
        """Return True if a value is not finite. Exceptions of the expression propagate."""
        for text in self._texts:
            value = evaluate_at(condition_code(text), frame, lambda: rank)
            if (facts := wrong_value(value, text)) is not None:
                wrong = clamp(WrongNumber, step=step, suspect=Suspect.VALUE, origin=Origin.LINE, **facts)
                self.found = Found(wrong, {})
                return True
        return False
