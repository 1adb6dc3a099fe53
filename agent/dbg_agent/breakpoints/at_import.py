"""Stops on Python 3.11: when a file is loaded, it is compiled with a call inserted before each line with a stop.

The compiled code is never written to a cache. Each call has the line number of the statement that follows it, so all
line numbers stay correct, in tracebacks too. A stop at the head of a loop happens once, before the loop.

For an imported module, the interpreter's own finders are used, and only the loader is replaced. The script of the
command line is not imported, so it has no loader to replace. Instead, a path hook accepts the script's path. The
interpreter then asks the hook's finder for the module ``__main__`` and runs that module with the finder's loader. The
interpreter runs a directory that contains a ``__main__`` in the same way.
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
"""Name of the function in each inserted call. The function is a builtin, so that it hides no name of a module."""

COMPILES = "invoke_and_store_as_constant"
"""Name of a function of Dynamo that runs while Dynamo compiles. It calls the functions that are marked as constant."""

LATER = "the file is loaded already; the breakpoint takes effect at the rank's next stop"

_served: list[AtImport] = []
"""All AtImport objects, newest first. If two of them have a stop at the same line, the newer one is called first, as in
`sys.monitoring`."""

_numbered: list[tuple[AtImport, str, int]] = []
"""The AtImport object, file and line of each inserted call. The call passes its index in this list. Entries are never
removed, because compiled code may use them at any time."""


class AtImport:
    """Calls ``reached`` before lines with stops, in files that are loaded later; see :class:`.monitored.Monitored`."""

    replaces_tracing = False
    """False: functions that were loaded earlier contain no inserted calls, so only a traced thread stops in them."""

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
        """Set which lines have breakpoints, in files that are loaded from now on."""
        self.lines = dict(lines)

    def problem(self, file: str, line: int) -> str:
        """Return the reason why only a traced thread stops at this line, or an empty string."""
        return "" if (file, line) in self._compiled else LATER

    def numbers_in(self, path: str, module: str) -> Iterator[tuple[int, int]]:
        """Yield the lines with stops of a file that is being loaded, each with the number for its call."""
        file = same_file(path, self.lines)
        lines = set(self.lines.get(file, ()))
        if self.find is not None:
            lines |= self.find(path, module)
        for line in lines:
            self._compiled.add((file, line))
            _numbered.append((self, file or path, line))
            yield line, len(_numbered) - 1


def reach(number: int) -> None:
    """Call ``reached`` of the AtImport object that has the stop of this number. Inserted calls call this function."""
    frame = sys._getframe(1)
    if frame.f_code.co_name != COMPILES:
        served, file, line = _numbered[number]
        if served.find is not None or line in served.lines.get(file, ()):
            served.reached(frame, file, line)


# As with `torch._dynamo.assume_constant_result`: Dynamo calls the function while it compiles and omits the call from
# the graph, so the call causes no graph break.
vars(reach)["_dynamo_marked_constant"] = True


def compile_file(source: bytes, path: str, module: str) -> CodeType:
    """Compile a file with calls before the lines with stops. Exceptions of ``compile`` propagate."""
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
    """A loader that compiles a module from its source, with the inserted calls and without any cache."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the module's code with the calls, or without them if the source can't be compiled."""
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
    """A finder that replaces the loader of each module that has stops and is an ordinary source file."""

    def change(self, spec: ModuleSpec) -> None:
        """Replace the loader in ``spec`` if the module has stops."""
        path = spec.origin
        loader = spec.loader
        if path is None or not spec.has_location or type(loader) is not SourceFileLoader:
            return
        if _has_stops(path, _name_of(spec.name)):
            spec.loader = _StopLoader(loader.name, loader.path)


_finder = _Finder()


def _has_stops(path: str, module: str) -> bool:
    return any(same_file(path, one.lines) or (one.find is not None and one.find(path, module)) for one in _served)


def start(script: str | None, load_script: Callable[[str], object]) -> None:
    """Enable stops in the script of this process, if there is one; ``load_script`` makes the script's loader."""
    sys.path_hooks.insert(0, _Hook(script, load_script))


class _Hook:
    """A path hook for two scripts: the script of this process, and the script of the process that spawned it."""

    def __init__(self, script: str | None, load_script: Callable[[str], object]) -> None:
        self._script = os.path.abspath(script) if script is not None else None  # noqa: PTH100
        self._load_script = load_script

    def __call__(self, path: str) -> _Entry:
        """Return a finder for a script with stops. Raise ImportError for any other path, as path hooks do."""
        if not os.path.isfile(path) or not _has_stops(path, "__main__"):  # noqa: PTH113
            raise ImportError(path)
        if os.path.abspath(path) != self._script:  # noqa: PTH100
            # A process that multiprocessing has spawned reads its parent's script as `__mp_main__`.
            return _Entry(_StopLoader("__main__", path), path)
        self._script = None
        sys.path_importer_cache.pop(path, None)
        return _Entry(self._load_script(path), path)


class _Entry:
    """A finder for one script, whose only module is ``__main__``."""

    def __init__(self, loader: object, path: str) -> None:
        self._spec = ModuleSpec("__main__", cast("Loader", loader), origin=path)

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the script's spec for ``__main__``, and None for any other module."""
        return self._spec if name == "__main__" else None
