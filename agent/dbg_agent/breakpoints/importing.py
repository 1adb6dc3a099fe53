"""Imports that compile modules with calls for stops and breakpoints in them; bytecode caches never hold them.

The interpreter's own finders find a module, and only its loader is replaced. The script of the command line is never
imported. A path hook gives it to the interpreter like a folder or an archive with a ``__main__`` inside.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, cast

from dbg_agent.breakpoints import points
from dbg_agent.launch.this_process import started_module
from dbg_agent.process.imports import FinderInFront

if TYPE_CHECKING:
    from importlib.abc import Loader

    from dbg_agent.breakpoints.compiled import Compiled


_breakpoints: Compiled | None = None
"""What adds the calls of breakpoints to files that are loaded later."""


def begin(script: str | None, load_script: Callable[[str], object]) -> None:
    """Look at every import from now on.

    ``script`` is the file that this process was started with, if any; ``load_script`` makes the loader that runs it.
    """
    _look_at_imports()
    sys.path_hooks.insert(0, _Hook(script, load_script))


def serve(breakpoints: Compiled | None) -> None:
    """Have the files that are loaded from now on compiled with these breakpoints; with no others if None."""
    global _breakpoints  # noqa: PLW0603 - one per process
    _breakpoints = breakpoints
    if breakpoints is not None:
        _look_at_imports()
    elif not points.POINTS and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _look_at_imports() -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _StopLoader(SourceFileLoader):
    """A loader that compiles a module from its source with stops and breakpoints in it, without any cache."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code with the calls in it, or without them if it can't be compiled with them."""
        names = (self.name, *_running_name(self.name))
        try:
            source = self.get_data(self.path)
            code = points.compile_file(source, self.path, *names)
            known = _breakpoints
            return known.compile_new(source, self.path, code) if known is not None and known.wants(self.path) else code
        except Exception as error:
            # The interpreter itself then reports what is wrong with the source.
            points.cant_place(self.path, f"it can't be compiled ({type(error).__name__})", *names)
            return super().get_code(fullname)


def _running_name(name: str) -> tuple[str, ...]:
    """Return ``__main__`` for the module that ``python -m`` runs."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    is_run = spec is None and sys.argv[:1] == ["-m"] and started_module(sys.argv, sys.orig_argv) == name
    return ("__main__",) if is_run else ()


class _Finder(FinderInFront):
    """A finder that replaces the loader of a module with stops or breakpoints, if it is an ordinary source file."""

    def change(self, spec: ModuleSpec) -> None:
        """Replace the loader of a module with stops or breakpoints."""
        path = spec.origin
        if path is None or not spec.has_location:
            return
        names = (spec.name, *_running_name(spec.name))
        has_stops = bool(points.points_for(path, *names))
        if not has_stops and (_breakpoints is None or not _breakpoints.wants(path)):
            return
        if type(spec.loader) is SourceFileLoader:
            spec.loader = _StopLoader(spec.loader.name, spec.loader.path)
        elif has_stops:
            loader = type(spec.loader)
            points.cant_place(path, f"it is loaded by {loader.__module__}.{loader.__qualname__}", *names)


_finder = _Finder()


class _Hook:
    """A path hook for two scripts: of this process, and of the process that spawned it."""

    def __init__(self, script: str | None, load_script: Callable[[str], object]) -> None:
        self._script = os.path.abspath(script) if script is not None else None  # noqa: PTH100
        self._load_script = load_script

    def __call__(self, path: str) -> _Entry:
        """Return a finder for a script with stops; raise ImportError for all else, as path hooks do."""
        names = ("__main__", os.path.splitext(os.path.basename(path))[0])  # noqa: PTH119, PTH122
        if not os.path.isfile(path) or not points.points_for(path, *names):  # noqa: PTH113
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
