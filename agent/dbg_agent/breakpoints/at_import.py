"""Stops on Python 3.11: files are compiled with calls before their lines as they are loaded; caches never hold those.

Each call has the line of the statement that follows it, so all line numbers stay as they are, in tracebacks too. The
head of a loop stops once, before the loop.

The interpreter's own finders find a module, and only its loader is replaced. The script of the command line is never
imported. A path hook gives it to the interpreter like a folder or an archive with a ``__main__`` inside.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, cast

from dbg_agent.breakpoints.placing import Spot, same_file, spot_at, spots_of
from dbg_agent.launch.this_process import started_module
from dbg_agent.process.imports import FinderInFront, compiled, parsed

if TYPE_CHECKING:
    from importlib.abc import Loader

    from dbg_agent.breakpoints.monitored import Find, Lines, Reached

CALL = "__dbg_stop_point__"
"""The builtin that is called with the number of a line. It hides no name of the module."""

COMPILES = "invoke_and_store_as_constant"
"""Dynamo's function that calls a function marked as constant, in place of the program."""

LATER = "the file is loaded already; the breakpoint counts from the rank's next stop on"

_served: list[AtImport] = []
"""Those that have the program stop; of two at one line the later one comes first, as with `sys.monitoring`."""

_numbered: list[tuple[AtImport, str, int]] = []
"""The lines by their numbers in calls. Code may call as long as it lives, so nothing is ever removed."""


class AtImport:
    """Has files that are loaded from now on call ``reached`` before their lines; see :class:`.monitored.Monitored`."""

    replaces_tracing = False
    """A function that exists already does not stop."""

    def __init__(self, reached: Reached, find: Find | None = None) -> None:
        self.reached = reached
        self.find = find
        self.lines: Lines = {}
        self._compiled: set[tuple[str, int]] = set()
        _served.insert(0, self)
        setattr(builtins, CALL, reach)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)

    def serve(self, lines: Lines) -> None:
        """Have the program stop at these lines, and at no others, in files that are loaded from now on."""
        self.lines = dict(lines)

    def problem(self, file: str, line: int) -> str:
        """Return why nothing stops at this line before a thread is traced for it."""
        return "" if (file, line) in self._compiled else LATER

    def numbers_in(self, path: str, module: str) -> Iterator[tuple[int, int]]:
        """Yield the lines of a file that is loaded now, each with its number in calls."""
        file = same_file(path, self.lines)
        lines = set(self.lines.get(file, ()))
        if self.find is not None:
            lines |= self.find(path, module)
        for line in lines:
            self._compiled.add((file, line))
            _numbered.append((self, file or path, line))
            yield line, len(_numbered) - 1


def reach(number: int) -> None:
    """Go to what is to be done before this line; compiled code calls it."""
    frame = sys._getframe(1)
    if frame.f_code.co_name != COMPILES:
        served, file, line = _numbered[number]
        if served.find is not None or line in served.lines.get(file, ()):
            served.reached(frame, file, line)


# Dynamo then calls the function while it compiles, breaks no graph, and leaves the call out, as does
# `torch._dynamo.assume_constant_result`.
vars(reach)["_dynamo_marked_constant"] = True


def compile_file(source: bytes, path: str, module: str) -> CodeType:
    """Return the code of a file with calls before its lines with stops. Raise what ``compile`` raises."""
    tree = parsed(source, path)
    spots = list(spots_of(tree))
    for served in _served:
        for line, number in served.numbers_in(path, module):
            spot = spot_at(spots, line)
            if spot is not None and spot.first == line:
                _insert_at(spot, number)
    return compiled(tree, path)


# ---------------------------------------------------------------------------------------------------- the syntax tree


def _insert_at(spot: Spot, number: int) -> None:
    index = next(i for i, statement in enumerate(spot.body) if statement is spot.before)
    call = ast.Expr(ast.Call(ast.Name(CALL, ast.Load()), [ast.Constant(number)], []))
    for node in ast.walk(call):
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno = node.end_lineno = spot.first
            node.col_offset = node.end_col_offset = spot.before.col_offset
    spot.body.insert(index, call)


# -------------------------------------------------------------------------------------------------------- the loading


class _StopLoader(SourceFileLoader):
    """A loader that compiles a module from its source with calls in it, without any cache."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code with the calls in it, or without them if it can't be compiled with them."""
        try:
            return compile_file(self.get_data(self.path), self.path, _name_of(self.name))
        except Exception:
            # The interpreter itself then reports what is wrong with the source.
            return super().get_code(fullname)


def _name_of(name: str) -> str:
    """Return the name that a module has while it runs: ``__main__`` if ``python -m`` runs it."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    is_run = spec is None and sys.argv[:1] == ["-m"] and started_module(sys.argv, sys.orig_argv) == name
    return "__main__" if is_run else name


class _Finder(FinderInFront):
    """A finder that replaces the loader of a module with stops, if it is an ordinary source file."""

    def change(self, spec: ModuleSpec) -> None:
        """Replace the loader of a module with stops."""
        path = spec.origin
        loader = spec.loader
        if path is None or not spec.has_location or type(loader) is not SourceFileLoader:
            return
        if _has_stops(path, _name_of(spec.name)):
            spec.loader = _StopLoader(loader.name, loader.path)


_finder = _Finder()


def _has_stops(path: str, module: str) -> bool:
    return any(same_file(path, one.lines) or (one.find is not None and one.find(path, module)) for one in _served)


def begin(script: str | None, load_script: Callable[[str], object]) -> None:
    """Have the script that this process was started with, if any, stop, too; ``load_script`` makes its loader."""
    sys.path_hooks.insert(0, _Hook(script, load_script))


class _Hook:
    """A path hook for two scripts: of this process, and of the process that spawned it."""

    def __init__(self, script: str | None, load_script: Callable[[str], object]) -> None:
        self._script = os.path.abspath(script) if script is not None else None  # noqa: PTH100
        self._load_script = load_script

    def __call__(self, path: str) -> _Entry:
        """Return a finder for a script with stops; raise ImportError for all else, as path hooks do."""
        if not os.path.isfile(path) or not _has_stops(path, "__main__"):  # noqa: PTH113
            raise ImportError(path)
        if os.path.abspath(path) != self._script:  # noqa: PTH100
            # A process that multiprocessing has spawned reads its parent's script as `__mp_main__`.
            return _Entry(_StopLoader("__main__", path), path)
        self._script = None
        sys.path_importer_cache.pop(path, None)
        return _Entry(self._load_script(path), path)


class _Entry:
    """A finder for one script, which holds only a ``__main__``."""

    def __init__(self, loader: object, path: str) -> None:
        self._spec = ModuleSpec("__main__", cast("Loader", loader), origin=path)

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the script as ``__main__``, and no other module."""
        return self._spec if name == "__main__" else None
