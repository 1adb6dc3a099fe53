"""Modules that may be loaded or not, changes of them right after their import, and no warnings of what we do there."""

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

from dbg_agent.process.log import say
from dbg_wire.errors import error_line

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec

Change = Callable[[ModuleType], None]

_changes: dict[str, list[Change]] = {}


def loaded(name: str) -> ModuleType | None:
    """Return the module of that name if its import has ended; from any thread.

    ``sys.modules`` has a module from the beginning of its import on, when most of its names are missing.
    """
    module = sys.modules.get(name)
    # importlib's own mark for a module that is being imported, in all releases since Python 3.3.
    is_being_imported = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return None if is_being_imported else module


def when_loaded(name: str, change: Change) -> None:
    """Call ``change`` with the module of that name, now if it is loaded, and after each import of it."""
    _changes.setdefault(name, []).append(change)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    module = sys.modules.get(name)
    if module is not None:
        _apply(change, module)


def forget(name: str, change: Change) -> None:
    """Call ``change`` no more; changes that it has made stay."""
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
        # Another release of that module may lack what is changed. The program's import must not fail for that.
        problem = error_line(error)
        say(f"{module.__name__} can't be changed ({problem}); leaving it as it is")


class FinderInFront:
    """A finder that asks those behind it, and changes what they find by :meth:`change`."""

    def __init__(self) -> None:
        self._searching = threading.local()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the next finders find; None if one of them asks this finder again."""
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
        """Tell whether a module may be one that is to be changed."""
        return True

    def change(self, spec: ModuleSpec) -> None:
        """Change how a module is loaded, if need be."""
        raise NotImplementedError

    def _found(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        finders: list[Any] = list(sys.meta_path)
        # The finders in front have been asked already, or ask this finder.
        for finder in finders[finders.index(self) + 1 :] if self in finders else finders:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                return spec
        return None


class _ChangeFinder(FinderInFront):
    """A finder that has modules changed when they are loaded."""

    def is_meant(self, name: str) -> bool:
        """Tell whether a module is to be changed."""
        return name in _changes

    def change(self, spec: ModuleSpec) -> None:
        """Have the module loaded as by its own loader, and changed then."""
        if spec.loader is not None:
            spec.loader = cast("Loader", _ChangingLoader(spec.loader, spec.name))


class _ChangingLoader:
    """A loader that loads a module as its own loader does, and then changes it."""

    def __init__(self, loader: Loader, name: str) -> None:
        self._loader = loader
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """Return what else the module's own loader has: `python -m` asks it for the module's code."""
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, give it back its own loader, and make the changes that :func:`forget` has not removed."""
        spec = module.__spec__
        module.__loader__ = self._loader
        if spec is not None:
            spec.loader = self._loader
        self._loader.exec_module(module)
        for change in tuple(_changes.get(self._name, ())):
            _apply(change, module)


_finder: Any = _ChangeFinder()


# ------------------------------------------------------------------------------------------- without its warnings

DEBUGGER_MODULES = r"(pudb|urwid|urwid_readline|jedi|parso|pygments)(\.|$)"
"""The modules of PuDB and of what it imports, as a pattern."""


@contextmanager
def unwarned(module: str = DEBUGGER_MODULES) -> Iterator[None]:
    """Ignore warnings of these modules, by default of a debugger's, even in a program that makes errors of warnings.

    One filter is put in front and taken out again. ``warnings.catch_warnings`` would save and restore all filters of
    the process, and lose filters if another thread does the same meanwhile.
    """
    warnings.filterwarnings("ignore", module=module)
    added = warnings.filters[0]
    try:
        yield
    finally:
        with suppress(ValueError):
            list.remove(cast("list[object]", warnings.filters), added)


def compiled(source: bytes | ast.Module, path: str) -> CodeType:
    """Compile text of the program that the program compiles, too, without its warnings. Raises what `compile` does."""
    with unwarned(_module(path)):
        code: CodeType = compile(source, path, "exec", dont_inherit=True)
        return code


def parsed(source: bytes | str, path: str = "<unknown>") -> ast.Module:
    """Parse text of the program without its warnings. Raises what `ast.parse` does."""
    with unwarned(_module(path)):
        return ast.parse(source, path)


def _module(path: str) -> str:
    """Return a pattern of the module that Python names in warnings of this file's text."""
    return re.escape(path.removesuffix(".py"))
