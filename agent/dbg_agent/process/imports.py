"""Modules that may be loaded or not: whether they are, and changes of them at once or right after their import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from dbg_agent.process.stderr import say
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


class _ChangeFinder:
    """A finder that asks the other finders for a module, and has the module changed when it is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that is to be changed, None for any other."""
        if name not in _changes:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = cast("Loader", _ChangingLoader(spec.loader, name))
                return spec
        return None


class _ChangingLoader:
    """A loader that loads a module as its own loader does, and then changes it."""

    def __init__(self, loader: Loader, name: str) -> None:
        self._loader = loader
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module by its own loader."""
        return self._loader.create_module(spec)

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
