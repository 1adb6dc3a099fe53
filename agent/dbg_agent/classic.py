"""Calls of stock debuggers that a program has already, sent to the agent without a change of the program.

``pudb.remote.set_trace``, ``remote_pdb.set_trace`` and ``remote_pdb.RemotePdb(…).set_trace`` stop as
:func:`dbg_agent.set_trace` does, whatever host and port they name. Neither module is imported for that: one that the
program imports later is changed then. A name that the program took from a module before, by
``from pudb.remote import set_trace``, stays what it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from .process import stop_at

if TYPE_CHECKING:
    from importlib.abc import Loader

_replaced: list[tuple[object, str, object]] = []
"""Whose attribute was what, for :func:`restore`."""


def redirect() -> None:
    """Send the stock calls of this process to the agent, now or when their modules are imported; again does nothing."""
    if _finder in sys.meta_path:
        return
    for name, change in _CHANGES.items():
        module = sys.modules.get(name)
        if module is not None:
            change(module)
    sys.meta_path.insert(0, _finder)


def restore() -> None:
    """Give the stock calls back their former meaning; a ``RemotePdb`` made meanwhile stays the agent's."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    while _replaced:
        owner, name, former = _replaced.pop()
        setattr(owner, name, former)


def _stop_where_called(frame: FrameType | None = None, *_where: object, **_how: object) -> None:
    stop_at(frame if isinstance(frame, FrameType) else sys._getframe(1), {}, ())


def _stop_of_object(_debugger: object, frame: FrameType | None = None) -> None:
    stop_at(frame if isinstance(frame, FrameType) else sys._getframe(1), {}, ())


def _begin_object(debugger: Any, *_where: object, **_how: object) -> None:
    """Neither listen nor wait for a connection, as the stock one does when it is made."""
    debugger.set_trace = _stop_where_called


def _change_pudb(module: ModuleType) -> None:
    _replace(module, "set_trace", _stop_where_called)


def _change_remote_pdb(module: ModuleType) -> None:
    _replace(module, "set_trace", _stop_where_called)
    stock = getattr(module, "RemotePdb", None)
    if isinstance(stock, type):
        _replace(stock, "__init__", _begin_object)
        _replace(stock, "set_trace", _stop_of_object)


def _replace(owner: object, name: str, by: object) -> None:
    former = getattr(owner, name, None)
    if former is not None:
        _replaced.append((owner, name, former))
        setattr(owner, name, by)


_CHANGES: dict[str, Callable[[ModuleType], None]] = {"pudb.remote": _change_pudb, "remote_pdb": _change_remote_pdb}


class _Finder:
    """Find the modules of ``_CHANGES`` where everybody else does, and have them changed once they are loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of one of those modules, None for any other."""
        if name not in _CHANGES:
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
    """Load a module as its own loader does, and then change it."""

    def __init__(self, loader: Loader, name: str) -> None:
        self._loader = loader
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave this to the module's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, give it back its own loader, and change it unless that was taken back meanwhile."""
        spec = module.__spec__
        module.__loader__ = self._loader
        if spec is not None:
            spec.loader = self._loader
        self._loader.exec_module(module)
        if _finder in sys.meta_path:
            _CHANGES[self._name](module)


_finder: Any = _Finder()
