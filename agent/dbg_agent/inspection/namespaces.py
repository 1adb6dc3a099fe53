"""The variables of a frame, and how one is assigned so that the program sees it."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import partial
from types import FrameType
from typing import Any

from dbg_agent.inspection.expressions import is_name
from dbg_agent.inspection.objects import in_order
from dbg_agent.inspection.part import Opened, Part
from dbg_agent.stop.frame_locals import write_back
from dbg_wire.records.inspection import Scope


class Namespaces:
    """The globals and locals of one frame.

    ``known_locals`` are those that an open debugger has of this frame, None if none is open there: before Python 3.13
    reading ``f_locals`` anew would undo what was assigned in the debugger.
    """

    def __init__(self, frame: FrameType, known_locals: MutableMapping[str, Any] | None = None) -> None:
        self.frame = frame
        self.globals = frame.f_globals
        self.locals: MutableMapping[str, Any] = frame.f_locals if known_locals is None else known_locals

    def together(self) -> dict[str, Any]:
        """Return both as one: with two a comprehension or lambda in an expression would not see the locals."""
        return {**self.globals, **self.locals}

    def opened(self, scope: Scope) -> Opened:
        """Return the variables of a scope as parts."""
        if scope is Scope.GLOBALS:
            names = in_order([name for name in self.globals if isinstance(name, str)])
            return Opened(names, partial(self._part, self.globals, self._put_global, shadowed=self.locals))
        names = in_order([name for name in self.locals if is_name(name)])
        return Opened(names, partial(self._part, self.locals, self._put_local, shadowed={}))

    def keep(self) -> None:
        """Write assignments to the locals back to the frame, as Python does when a trace function returns."""
        write_back(self.frame, self.locals)

    def _part(
        self,
        values: MutableMapping[str, Any],
        put: Callable[[str, Any], None],
        name: str,
        *,
        shadowed: MutableMapping[str, Any],
    ) -> Part:
        is_seen = is_name(name) and (shadowed is self.globals or name not in shadowed)
        return Part(name, partial(values.__getitem__, name), name if is_seen else "", partial(put, name))

    def _put_global(self, name: str, value: Any) -> None:
        self.globals[name] = value

    def _put_local(self, name: str, value: Any) -> None:
        self.locals[name] = value
        self.keep()
