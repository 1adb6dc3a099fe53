"""Changes to modules right after their import, optional modules, and suppressed warnings of debuggers."""

from __future__ import annotations

import ast
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from dbg_agent.process.log import write_stderr
from dbg_wire.errors import error_line

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec

Change = Callable[[ModuleType], None]

_changes: dict[str, list[Change]] = {}


def loaded(name: str) -> ModuleType | None:
    """Return the module of that name, or None if it is not imported or its import has not ended; from any thread.

    ``sys.modules`` contains a module from the beginning of its import, when most of its names are still missing.
    """
    module = sys.modules.get(name)
    # Since Python 3.3 importlib sets `_initializing` while it imports a module.
    is_being_imported = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return None if is_being_imported else module


def when_loaded(name: str, change: Change) -> None:
    """Call ``change`` with the module of that name: now if it is loaded, and after each import of it."""
    _changes.setdefault(name, []).append(change)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    module = sys.modules.get(name)
    if module is not None:
        _apply(change, module)


def forget(name: str, change: Change) -> None:
    """Stop calling ``change`` for that module; changes already made stay."""
    waiting = _changes.get(name, [])
    if change in waiting:
        waiting.remove(change)
    if not waiting:
        _changes.pop(name, None)
    if not _changes and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _apply(change: Change, module: ModuleType) -> None:
    try:
        change(module)
    except Exception as error:
        # Another release of that module may not have the attribute to change. This must not fail the program's import.
        problem = error_line(error)
        write_stderr(f"{module.__name__} can't be changed ({problem}); leaving it as it is")


class FinderInFront:
    """A finder that calls the later finders in ``sys.meta_path`` and passes their result to :meth:`change`."""

    def __init__(self) -> None:
        self._searching = threading.local()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a later finder's spec; None if the call is recursive or the module is not one to change."""
        former = getattr(self._searching, "name", None)
        if former == name or not self.is_meant(name):
            return None
        self._searching.name = name
        try:
            spec = self._found(name, path, target)
        finally:
            self._searching.name = former
        if spec is not None:
            self.change(spec)
        return spec

    def is_meant(self, _name: str) -> bool:
        """Return True if the module may be one to change."""
        return True

    def change(self, spec: ModuleSpec) -> None:
        """Change how a module is loaded, if necessary."""
        raise NotImplementedError

    def _found(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        finders: list[Any] = list(sys.meta_path)
        # Earlier finders have been tried already, or one of them is calling this finder.
        for finder in finders[finders.index(self) + 1 :] if self in finders else finders:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                return spec
        return None


class _ChangeFinder(FinderInFront):
    """A finder that replaces the loader of a module if changes are registered for the module."""

    def is_meant(self, name: str) -> bool:
        """Return True if changes are registered for the module."""
        return name in _changes

    def change(self, spec: ModuleSpec) -> None:
        """Wrap the loader, so that the module is changed right after its own loader has run."""
        if spec.loader is not None:
            spec.loader = cast("Loader", _ChangingLoader(spec.loader, spec.name))


class _ChangingLoader:
    """A loader that loads a module with the module's own loader and then changes it."""

    def __init__(self, loader: Loader, name: str) -> None:
        self._loader = loader
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the module's own loader; `python -m` asks the loader for the module's code."""
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with its own loader restored, then make the changes that :func:`forget` has not removed."""
        spec = module.__spec__
        module.__loader__ = self._loader
        if spec is not None:
            spec.loader = self._loader
        self._loader.exec_module(module)
        for change in tuple(_changes.get(self._name, ())):
            _apply(change, module)


_finder: Any = _ChangeFinder()


# ------------------------------------------------------------------------------------------- suppressed warnings

DEBUGGER_MODULES = r"(pudb|urwid|urwid_readline|jedi|parso|pygments)(\.|$)"
"""Pattern of the modules of PuDB and of its dependencies."""


@contextmanager
def unwarned(module: str = DEBUGGER_MODULES) -> Iterator[None]:
    """Ignore warnings of modules that match the pattern ``module``, even if the program turns warnings into errors.

    One filter is inserted at the front and removed again. ``warnings.catch_warnings`` would save and restore all
    filters of the process, and would lose filters that another thread sets at the same time.
    """
    warnings.filterwarnings("ignore", module=module)
    added = warnings.filters[0]
    try:
        yield
    finally:
        with suppress(ValueError):
            list.remove(cast("list[object]", warnings.filters), added)


def compiled(source: bytes | ast.Module, path: str) -> CodeType:
    """Compile a source text of the program without showing warnings; raise as `compile` does.

    The program compiles the same text itself, and shows the warnings then.
    """
    with unwarned(_module(path)):
        code: CodeType = compile(source, path, "exec", dont_inherit=True)
        return code


def parsed(source: bytes | str, path: str = "<unknown>") -> ast.Module:
    """Parse a source text of the program without showing warnings; raise as `ast.parse` does."""
    with unwarned(_module(path)):
        return ast.parse(source, path)


def _module(path: str) -> str:
    """Return a pattern that matches the module's name in Python's warnings about this file's text."""
    return re.escape(path.removesuffix(".py"))
