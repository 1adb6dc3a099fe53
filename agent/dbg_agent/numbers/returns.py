"""Results of the user's ``forward`` functions, seen in their frames before they return; from Python 3.12 on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from dbg_agent.breakpoints.monitored import IDS
from dbg_agent.frames.stacks import is_users_file

TOOL = "dbg-agent-numbers"
"""The name of this tool, which other tools see as the owner of its tool id."""


class ForwardReturns:
    """Calls ``returned`` with a module and its result, in the frame of the module's ``forward``."""

    def __init__(self, returned: Callable[[Any, Any], None]) -> None:
        self._returned = returned
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._id: int | None = None
        self._codes: dict[int, CodeType] = {}

    def start(self) -> None:
        """Take a tool id, unless this Python is too old or no id is free."""
        free = [number for number in IDS if self._monitoring and self._monitoring.get_tool(number) is None]
        if self._id is None and free:
            self._id = free[0]
            self._monitoring.use_tool_id(self._id, TOOL)
            event = self._monitoring.events.PY_RETURN
            self._monitoring.register_callback(self._id, event, self._on_return)

    def end(self) -> None:
        """Give the tool id back."""
        if self._id is not None:
            # Before Python 3.14 the events of an id stay after it is free.
            for code in self._codes.values():
                self._monitoring.set_local_events(self._id, code, 0)
            self._codes.clear()
            self._monitoring.free_tool_id(self._id)
            self._id = None

    def add(self, module: Any) -> None:
        """Watch the class of this module, if its ``forward`` is the user's code."""
        forward = getattr(type(module), "forward", None)
        if self._id is not None and type(forward) is FunctionType and is_users_file(forward.__code__.co_filename):
            self._codes[id(forward.__code__)] = forward.__code__
            self._monitoring.set_local_events(self._id, forward.__code__, self._monitoring.events.PY_RETURN)

    def _on_return(self, code: CodeType, _offset: int, result: Any) -> None:
        frame = sys._getframe(1)
        module = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if module is not None:
            self._returned(module, result)
