"""Breakpoints without a trace function, by `sys.monitoring`, from Python 3.12 on.

Each code object reports its start once. Only code objects with breakpoints then report lines, so other code runs at
full speed. For Python 3.11 see :mod:`.at_import`.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

from dbg_agent.breakpoints.placing import same_file
from dbg_agent.frames.stacks import all_frames, outward

Reached = Callable[[FrameType, str, int], None]
"""Called in the program's thread when it reaches a breakpoint, with the frame and the breakpoint's file and line."""

Lines = Mapping[str, frozenset[int]]
"""Lines with breakpoints, by file."""

Find = Callable[[str, str], frozenset[int]]
"""Called with the file and the name of a module when the module starts to run, because its lines with stops are not
known earlier. Returns these lines."""

TOOL = "dbg-agent"
"""The name of this tool, which other tools see as the owner of its tool id."""

IDS = (3, 4, 2, 5, 1, 0)
"""Tool ids of `sys.monitoring` in the order of the attempts: 3 and 4 have no predefined meaning, 0 is for debuggers."""

MAX_CODES = 20_000
"""Maximum number of code objects with breakpoints, and of file names, that are kept. Without a limit, a program that
makes new code in a loop from a file with a breakpoint would fill the memory."""


class NoIdFree(Exception):
    """Raised when six other tools monitor the program."""


class Monitored:
    """Calls ``reached`` in each thread that runs a line with a breakpoint, by events of `sys.monitoring`."""

    replaces_tracing = True
    """True: all threads stop without tracing, because `sys.monitoring` reports the lines of each thread."""

    def __init__(self, reached: Reached, find: Find | None = None) -> None:
        self._reached = reached
        self._find = find
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined] # from 3.12 on
        self._id: int | None = None
        self._lines: Lines = {}
        self._files: dict[str, tuple[str, frozenset[int]]] = {}
        """The file and its lines with breakpoints, by the ``co_filename`` of code objects."""
        self._codes: dict[int, tuple[CodeType, str, frozenset[int]]] = {}
        """The code objects that report lines, with file and lines, by ``id()``, because distinct code objects of the
        same text compare equal."""
        if find is not None:
            self._acquire_id()

    def serve(self, lines: Lines) -> None:
        """Set which lines have breakpoints. Raise NoIdFree if no tool id is free."""
        self._lines, self._files = dict(lines), {}
        if not lines:
            self._free()
            return
        self._acquire_id()
        former = [code for code, _, _ in list(self._codes.values())]
        self._codes = {id(code): known for code in former if (known := self._known(code)) is not None}
        for code in former:
            if id(code) not in self._codes:
                self._set_line_events(code, enabled=False)
        for code in running_codes():
            self._watch(code)
        # Enable events again in functions and at lines that have disabled them after their first event.
        self._monitoring.restart_events()

    def problem(self, file: str, line: int) -> str:
        """Return an empty string: all threads stop at the line, also in functions that run now."""
        return ""

    def _acquire_id(self) -> None:
        if self._id is not None:
            return
        monitoring, events = self._monitoring, self._monitoring.events
        for number in IDS:
            try:
                monitoring.use_tool_id(number, TOOL)
            except ValueError:
                continue
            self._id = number
            # The interpreter calls this exit callback before it clears our modules. Finalizers of the program run even
            # later, and must not cause events then.
            atexit.register(self._free)
            monitoring.register_callback(number, events.PY_START, self._begins)
            monitoring.register_callback(number, events.PY_RESUME, self._begins)
            monitoring.register_callback(number, events.LINE, self._at_line)
            monitoring.set_events(number, events.PY_START | events.PY_RESUME)
            return
        raise NoIdFree

    def _free(self) -> None:
        if self._id is None:
            return
        monitoring, events, number = self._monitoring, self._monitoring.events, self._id
        self._id = None
        atexit.unregister(self._free)
        # From here on no event makes a thread add code to _codes. A thread that has already begun adds its code to the
        # former dict, which nothing reads.
        monitoring.set_events(number, events.NO_EVENTS)
        codes, self._codes = self._codes, {}
        for code, _, _ in list(codes.values()):
            monitoring.set_local_events(number, code, events.NO_EVENTS)
        for event in (events.PY_START, events.PY_RESUME, events.LINE):
            monitoring.register_callback(number, event, None)
        monitoring.free_tool_id(number)

    def _watch(self, code: CodeType) -> None:
        """Enable line events for a code object if it contains a breakpoint."""
        codes = self._codes
        known = self._known(code) if id(code) not in codes else None
        if known is not None and len(codes) < MAX_CODES:
            # Enable events before the code is stored. If another thread has freed the tool id, this call raises an
            # exception, and the code is not stored. So all stored code reports its lines.
            self._set_line_events(code, enabled=True)
            codes[id(code)] = known

    def _known(self, code: CodeType) -> tuple[CodeType, str, frozenset[int]] | None:
        """Return the code object with its file and its lines with breakpoints, or None if it has no breakpoint."""
        file, lines = self._lines_in(code.co_filename)
        here = lines.intersection(line for _, _, line in code.co_lines()) if lines else None
        return (code, file, here) if here else None

    def _lines_in(self, name: str) -> tuple[str, frozenset[int]]:
        known = self._files.get(name)
        if known is not None:
            return known
        known = ("", frozenset())
        if not name.startswith("<") and len(self._files) < MAX_CODES:
            file = same_file(name, self._lines)
            known = self._files[name] = (file, self._lines.get(file, frozenset()))
        return known

    def _set_line_events(self, code: CodeType, *, enabled: bool) -> None:
        events = self._monitoring.events
        self._monitoring.set_local_events(self._id, code, events.LINE if enabled else events.NO_EVENTS)

    # ------------------------------------------------------------------------------------------ in the program's thread

    def _begins(self, code: CodeType, _offset: int) -> object:
        """Check a code object when it first starts. The result DISABLE means that it reports no later start."""
        with suppress(Exception):  # another thread may have freed the id, and the program must continue
            if self._find is not None and code.co_name == "<module>":
                self._find_in(code.co_filename, sys._getframe(1).f_globals.get("__name__"))
            self._watch(code)
        return self._monitoring.DISABLE

    def _find_in(self, name: str, module: object) -> None:
        """Add the lines with stops of a module that starts to run."""
        lines = self._find(os.path.abspath(name), module) if self._find is not None and type(module) is str else None  # noqa: PTH100
        if lines:
            self._lines = {**self._lines, os.path.abspath(name): lines}  # noqa: PTH100
            self._files.clear()

    def _at_line(self, code: CodeType, line: int) -> object:
        """Report a line with a breakpoint; disable the events of other lines."""
        known = self._codes.get(id(code))
        if known is None or line not in known[2]:
            return self._monitoring.DISABLE
        self._reached(sys._getframe(1), known[1], line)
        return None


def running_codes() -> list[CodeType]:
    """Return the code objects of all frames of all threads."""
    running = (frame.f_code for innermost in list(all_frames().values()) for frame in outward(innermost))
    return list({id(code): code for code in running}.values())
