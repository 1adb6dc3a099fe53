"""The way to a breakpoint before Python 3.12: functions whose code has calls before the lines with breakpoints.

A file is compiled with the calls in it, and the functions that exist get the new code. A frame that runs already keeps
the old code, and the functions that this frame makes have the old code, too. A script that still runs its imports makes
its functions later; a later look gives these functions the new code.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from types import CodeType, FrameType, FunctionType

from dbg_agent.breakpoints import importing, points
from dbg_agent.breakpoints.files import EDITED, lines_of, same_file, source_bytes
from dbg_agent.breakpoints.insertion import CALL, all_codes, compile_with
from dbg_agent.breakpoints.monitored import Lines, Reached
from dbg_agent.breakpoints.wish import COMPILED, is_left_out, number_of, reach
from dbg_agent.frames.loaded_sources import compiled_sources
from dbg_agent.frames.stacks import all_frames, is_traced_by_us, outward
from dbg_agent.frames.variables import CO_OPTIMIZED
from dbg_wire.records.stop_points import StopAt

COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
"""Names of code that a statement runs as a function of its own, before Python 3.12."""

RUNS = "its function runs now; the breakpoint counts from the function's next call on, or from the rank's next stop on"

UNMADE = "its function is not made yet; the breakpoint counts from a moment after that, or from the rank's next stop on"

AROUND = (
    "the function around it runs now; the breakpoint counts for sure from that function's next call on, or from the "
    "rank's next stop on"
)

OUTSIDE = "no function has this line; the breakpoint counts from the rank's next stop on"


class Compiled:
    """The functions with calls in them."""

    replaces_tracing = False
    """A frame that runs already does not stop."""

    def __init__(self, reached: Reached) -> None:
        self._reached = reached
        self._numbers: dict[tuple[str, int], int] = {}
        """The numbers of the lines with calls so far."""
        self._left_out: set[tuple[str, int]] = set()
        """The lines of which torch's compiler has left out the call."""
        self._lines: Lines = {}
        self._loaded: dict[int, tuple[CodeType, CodeType]] = {}
        """Codes with calls by their ids, and the codes that the program has loaded in their place."""
        self._problems: dict[str, str] = {}
        """Why a whole file has no calls."""
        self._served: dict[str, frozenset[int]] = {}
        """The lines that functions have, by file."""
        self._awaited: dict[str, frozenset[int]] = {}
        """Lines of functions that are still to be made, by file."""
        self._is_over = False
        """Whether functions have got their own code back for good."""

    def serve(self, lines: Lines) -> None:
        """Have functions stop at these lines, and at no others, from their next calls on."""
        changed = {file for file in {*lines, *self._lines} if lines.get(file) != self._lines.get(file)}
        self._lines = dict(lines)
        setattr(builtins, CALL, reach)
        # At its end the interpreter removes the builtin, and still runs finalizers of the program.
        atexit.unregister(self._restore_all)
        if lines:
            atexit.register(self._restore_all)
        importing.serve(self if lines else None)
        self._patch_files(changed)

    def _patch_files(self, files: set[str]) -> None:
        """Give the functions of these files the calls that are wanted now."""
        every = list(_functions_of(files))
        for file in files:
            functions = [function for here, function in every if here == file]
            codes = self._compiled(file, self._lines.get(file, frozenset()), [one.__code__ for one in functions])
            for function in functions:
                self._patch_function(function, codes)
            self._await(file, {self._original(function.__code__) for function in functions})

    def _await(self, file: str, made: set[CodeType]) -> None:
        """Note the lines of functions that a running frame is still to make."""
        lines = self._served.get(file, frozenset())
        making = self._making(_frames(None), file, lines)
        self._awaited.pop(file, None)
        if awaited := frozenset(line for line, _, function in making if function not in made):
            self._awaited[file] = awaited

    @property
    def awaits(self) -> bool:
        """Return whether functions with breakpoints are still to be made."""
        return bool(self._awaited)

    def poll(self) -> bool:
        """Give calls to functions that were made since; return whether there was anything to look at."""
        due = {file for file, lines in list(self._awaited.items()) if self._is_due(file, lines)}
        if due and not self._is_over:
            self._patch_files(due)
        return bool(due)

    def _is_due(self, file: str, lines: frozenset[int]) -> bool:
        """Tell whether one of these functions may be made by now: its frame has passed that place, or is gone."""
        making = self._making(_frames(None), file, lines)
        is_gone = lines != {line for line, _, _ in making}
        return is_gone or any(
            frame.f_lineno is None or frame.f_lineno > function.co_firstlineno for _, frame, function in making
        )

    def _making(
        self, frames: Iterable[FrameType], file: str, lines: frozenset[int]
    ) -> list[tuple[int, FrameType, CodeType]]:
        """Return each line with the frame that makes its function, and the function's code, if that has no calls."""
        return [
            (line, frame, function)
            for frame in frames
            if _is_of(frame.f_code, file)
            for function in _functions_in(frame.f_code)
            for line in lines.intersection(lines_of(function))
            if not any(self._has_call(one, file, line) for one in all_codes(function))
        ]

    def _restore_all(self) -> None:
        """Give all functions their own code back, at the end of the process."""
        self._is_over = True
        with suppress(Exception):
            self.serve({})

    def problem(self, file: str, line: int, halted: int | None) -> str:
        """Return why no call stops at this line, or that a call runs which does not."""
        if (file, line) in self._left_out:
            return COMPILED
        whole = self._problems.get(file, "")
        if whole or line not in self._served.get(file, ()):
            return "" if halted is not None else whole or OUTSIDE
        frames = [frame for frame in _frames(halted) if not is_traced_by_us(frame)]
        making = self._making(frames, file, frozenset((line,)))
        if making and line in self._awaited.get(file, ()):
            return UNMADE
        if any(frame.f_code.co_flags & CO_OPTIMIZED for _, frame, _ in making):
            return AROUND
        return RUNS if any(self._misses(frame, file, line) for frame in frames) else ""

    def _misses(self, frame: FrameType, file: str, line: int) -> bool:
        """Tell whether the frame of a function has no call at this line."""
        code = frame.f_code
        if not code.co_flags & CO_OPTIMIZED or not _is_of(code, file):
            return False
        has_line = any(line == known for _, _, known in code.co_lines())
        return has_line and not self._has_call(code, file, line)

    def _has_call(self, code: CodeType, file: str, line: int) -> bool:
        return CALL in code.co_names and self._number(file, line) in code.co_consts

    def _reach(self, file: str, line: int, frame: FrameType) -> None:
        """Go to the breakpoint of a call, if it is still set; in the program's thread."""
        if is_left_out(frame):
            self._left_out.add((file, line))
        elif line in self._lines.get(file, ()):
            self._reached(frame, file, line)

    def _compiled(self, file: str, lines: frozenset[int], loaded: list[CodeType]) -> dict[CodeType, CodeType]:
        """Return the codes with calls for the codes that the program has loaded; none if that can't be."""
        source = source_bytes(file) if lines else None
        if source is None:
            self._problems.pop(file, None)
            self._served.pop(file, None)
            return {}
        own = compile_with(source, file, points.stops_in(file))[0]
        codes = dict(zip(all_codes(own), all_codes(self._with_calls(source, file, file, lines)), strict=True))
        if any(self._original(one) not in codes for one in loaded):
            self._problems[file] = EDITED
            self._served.pop(file, None)
            return {}
        compiled_sources[file] = source
        functions = [inner for one in _functions_in(own) for inner in all_codes(one) if inner.co_flags & CO_OPTIMIZED]
        # An answer may be made in another thread meanwhile, so nothing is taken away first.
        self._served[file] = lines.intersection(line for one in functions for _, _, line in one.co_lines())
        self._problems.pop(file, None)
        return codes

    def _with_calls(self, source: bytes, path: str, file: str, lines: frozenset[int]) -> CodeType:
        """Return the code of a file with its stops of the command line, and with calls at these lines."""
        calls = [(self._number(file, line), StopAt(file=file, line=line)) for line in sorted(lines)]
        # Of a breakpoint and a stop at one line the breakpoint comes first, as from Python 3.12 on.
        return compile_with(source, path, [*calls, *points.stops_in(path)])[0]

    def wants(self, path: str) -> bool:
        """Tell whether a file that is loaded now has breakpoints."""
        return bool(same_file(path, self._lines))

    def compile_new(self, source: bytes, path: str, own: CodeType) -> CodeType:
        """Return the code of a file that is loaded now, outside of its functions with calls in it as well.

        ``own`` is what would be loaded without breakpoints. Raise what ``compile`` raises.
        """
        file = same_file(path, self._lines)
        lines = self._lines.get(file, frozenset())
        if not lines:
            return own
        code = self._with_calls(source, path, file, lines)
        for new, loaded in zip(all_codes(code), all_codes(own), strict=True):
            self._loaded[id(new)] = (new, loaded)
        compiled_sources[path] = source
        self._problems.pop(file, None)
        self._awaited.pop(file, None)
        self._served[file] = lines
        return code

    def _patch_function(self, function: FunctionType, codes: dict[CodeType, CodeType]) -> None:
        """Give a function the code with calls, or the loaded one if it has no breakpoint."""
        loaded = self._original(function.__code__)
        new = codes.get(loaded, loaded)
        numbers = frozenset(self._numbers.values())
        if not any(numbers.intersection(one.co_consts) for one in all_codes(new) if CALL in one.co_names):
            new = loaded
        if function.__code__ == new:
            return  # an equal code would lose what the interpreter has specialised in this one
        if new is not loaded:
            self._loaded[id(new)] = (new, loaded)
            for inner, outer in zip(all_codes(new), all_codes(loaded), strict=True):
                # A function that this one makes has a code that was never given.
                self._loaded.setdefault(id(inner), (inner, outer))
        function.__code__ = new

    def _original(self, code: CodeType) -> CodeType:
        known = self._loaded.get(id(code))
        return known[1] if known is not None else code

    def _number(self, file: str, line: int) -> int:
        if (file, line) not in self._numbers:
            self._numbers[file, line] = number_of(partial(self._reach, file, line))
        return self._numbers[file, line]


def _functions_of(files: set[str]) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions of these files, with the file."""
    known: dict[str, str] = {}
    for thing in gc.get_objects():
        # `isinstance` would run the code of an object that is a proxy.
        if type(thing) is FunctionType:
            name = thing.__code__.co_filename
            if name not in known:
                known[name] = same_file(name, files)
            if known[name]:
                yield known[name], thing


def _functions_in(code: CodeType) -> Iterator[CodeType]:
    """Yield the codes of the functions that code of a module, a class or a function makes by itself."""
    for one in code.co_consts:
        if isinstance(one, CodeType) and not one.co_flags & CO_OPTIMIZED:
            yield from _functions_in(one)  # a class runs its body at once
        elif isinstance(one, CodeType) and one.co_name not in COMPREHENSIONS:
            yield one


def _is_of(code: CodeType, file: str) -> bool:
    # The names are compared first: to resolve a path takes long.
    return os.path.basename(code.co_filename) == os.path.basename(file) and bool(same_file(code.co_filename, (file,)))  # noqa: PTH119 - no pathlib in a rank


def _frames(but_of: int | None) -> Iterator[FrameType]:
    for thread, innermost in list(all_frames().items()):
        yield from outward(innermost if thread != but_of else None)
