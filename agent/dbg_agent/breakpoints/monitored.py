"""How the program comes to a breakpoint without a trace function; from Python 3.12 on by `sys.monitoring`.

Each code object tells once that it begins. Those that hold a breakpoint then tell of its line alone, so other code
runs as before. Before Python 3.12 see :mod:`.at_import`.
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
"""Called in the program's thread with the frame, and the file and the line of a breakpoint, by which it comes."""

Lines = Mapping[str, frozenset[int]]
"""Lines with breakpoints, by file."""

Find = Callable[[str, str], frozenset[int]]
"""Called with the file and the name of a module that begins; returns the lines with stops that are known only then."""

TOOL = "dbg-agent"
"""The name by which other tools see who has the id."""

IDS = (3, 4, 2, 5, 1, 0)
"""Ids in the order in which they are tried: 3 and 4 have no meaning of their own, 0 is that of a debugger."""

MAX_CODES = 20_000
"""Code objects with breakpoints, and names of files, that are kept: a program that makes new code in a loop, from a
file with a breakpoint, would fill the memory."""


class NoIdFree(Exception):
    """Six other tools monitor the program."""


class Monitored:
    """The events of the lines with breakpoints."""

    replaces_tracing = True
    """Every thread stops at every line, so that no thread needs to be traced for it."""

    def __init__(self, reached: Reached, find: Find | None = None) -> None:
        self._reached = reached
        self._find = find
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined] # since 3.12
        self._id: int | None = None
        self._lines: Lines = {}
        self._files: dict[str, tuple[str, frozenset[int]]] = {}
        """The files with breakpoints, and their lines, by the names that code objects have for them."""
        self._codes: dict[int, tuple[CodeType, str, frozenset[int]]] = {}
        """The code objects that tell of lines, by their ids: code objects of the same text are equal."""
        if find is not None:
            self._acquire_id()

    def serve(self, lines: Lines) -> None:
        """Have the program stop at these lines, and at no others, from now on. Raise NoIdFree."""
        self._lines, self._files = dict(lines), {}
        if not lines:
            self._free()
            return
        self._acquire_id()
        former = [code for code, _, _ in list(self._codes.values())]
        self._codes = {id(code): known for code in former if (known := self._known(code)) is not None}
        for code in former:
            if id(code) not in self._codes:
                self._set_line_events(code, wanted=False)
        for code in running_codes():
            self._watch(code)
        # Lines and functions that have told once tell again.
        self._monitoring.restart_events()

    def problem(self, file: str, line: int) -> str:
        """Return nothing: all threads stop there, also in functions that run now."""
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
            # Later the interpreter takes our modules apart, and still runs finalizers of the program.
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
        # Without its callback no thread that begins a function adds to the codes any more; one in the midst of that may
        # add its code to the former ones, of which nobody reads.
        monitoring.set_events(number, events.NO_EVENTS)
        codes, self._codes = self._codes, {}
        for code, _, _ in list(codes.values()):
            monitoring.set_local_events(number, code, events.NO_EVENTS)
        for event in (events.PY_START, events.PY_RESUME, events.LINE):
            monitoring.register_callback(number, event, None)
        monitoring.free_tool_id(number)

    def _watch(self, code: CodeType) -> None:
        """Have a code object tell of lines if it holds a breakpoint."""
        codes = self._codes
        known = self._known(code) if id(code) not in codes else None
        if known is not None and len(codes) < MAX_CODES:
            # First the events: if the id is freed meanwhile, this raises, and no code is kept that tells of no line.
            self._set_line_events(code, wanted=True)
            codes[id(code)] = known

    def _known(self, code: CodeType) -> tuple[CodeType, str, frozenset[int]] | None:
        """Return a code object with its file and those of its lines that have breakpoints; None if none has."""
        file, wanted = self._wanted_in(code.co_filename)
        here = wanted.intersection(line for _, _, line in code.co_lines()) if wanted else None
        return (code, file, here) if here else None

    def _wanted_in(self, name: str) -> tuple[str, frozenset[int]]:
        known = self._files.get(name)
        if known is not None:
            return known
        known = ("", frozenset())
        if not name.startswith("<") and len(self._files) < MAX_CODES:
            file = same_file(name, self._lines)
            known = self._files[name] = (file, self._lines.get(file, frozenset()))
        return known

    def _set_line_events(self, code: CodeType, *, wanted: bool) -> None:
        events = self._monitoring.events
        self._monitoring.set_local_events(self._id, code, events.LINE if wanted else events.NO_EVENTS)

    # ------------------------------------------------------------------------------------------ in the program's thread

    def _begins(self, code: CodeType, _offset: int) -> object:
        """Look once at a code object that begins."""
        with suppress(Exception):  # the id may have been freed meanwhile, and the program must go on
            if self._find is not None and code.co_name == "<module>":
                self._find_in(code.co_filename, sys._getframe(1).f_globals.get("__name__"))
            self._watch(code)
        return self._monitoring.DISABLE

    def _find_in(self, name: str, module: object) -> None:
        """Add the lines of a module that begins."""
        lines = self._find(os.path.abspath(name), module) if self._find is not None and type(module) is str else None  # noqa: PTH100
        if lines:
            self._lines = {**self._lines, os.path.abspath(name): lines}  # noqa: PTH100
            self._files.clear()

    def _at_line(self, code: CodeType, line: int) -> object:
        """Go to the breakpoint of a line; other lines of its function tell no more."""
        known = self._codes.get(id(code))
        if known is None or line not in known[2]:
            return self._monitoring.DISABLE
        self._reached(sys._getframe(1), known[1], line)
        return None


def running_codes() -> list[CodeType]:
    """Return the code objects that run now, in any thread."""
    running = (frame.f_code for innermost in list(all_frames().values()) for frame in outward(innermost))
    return list({id(code): code for code in running}.values())
