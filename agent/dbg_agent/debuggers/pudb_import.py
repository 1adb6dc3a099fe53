"""The import of PuDB without its traces: no file in the home, no name in builtins, no saved breakpoints.

PuDB writes its configuration when its debugger module is imported. A thousand ranks on a shared home would truncate
each other's file. Here PuDB finds no folder for the file, so a full or missing disk does not matter either.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dbg_agent.process.imports import unwarned

if TYPE_CHECKING:
    from dbg_agent.debuggers.engine import Engine
    from dbg_agent.debuggers.workplace import Workplace

OPTIONAL_MODULES = frozenset(
    {
        *("numpy", "bpython", "IPython", "ptpython", "ptipython"),
        *("tornado", "zmq", "trio", "twisted", "gi"),
    }
)
"""Modules that PuDB and urwid import if they are installed. They are heavy, and numpy leaves warnings filters behind.

PuDB needs numpy only to show arrays, which exist only in a program that has imported numpy itself. The second row
contains event loops of urwid, which PuDB does not use."""


class _WithoutOptional:
    """A finder that hides the optional modules from the thread that made it; loaded modules stay usable."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, _path: object, _target: object = None, /) -> None:
        """Reject the names in this thread; leave everything else to the finders that follow."""
        if name in OPTIONAL_MODULES and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is not imported for a debugger", name=name)


@contextmanager
def without_optional() -> Iterator[None]:
    """Make imports of the optional modules fail in this thread, unless the program has loaded them."""
    finder = _WithoutOptional()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Seen(str):
    """The version of the welcome that the user has seen. It compares as newer than any, so PuDB shows no welcome.

    Its text stays unchanged, because a program that uses PuDB itself may save the configuration. In the next process
    PuDB then shows the welcome as usual.
    """

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        """Return False, so that PuDB shows no welcome."""
        return False


def _users_folder() -> str:
    """Return the folder of the user's own PuDB configuration, which is read for theme and layout, never written."""
    return os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.environ.get("HOME", ""), ".config")  # noqa: PTH118


@contextmanager
def untraceable() -> Iterator[None]:
    """Context in which PuDB is imported and built; afterwards PuDB can't write any file."""
    had_shortcut = hasattr(builtins, "pu")
    from pudb import settings

    if not had_shortcut and hasattr(builtins, "pu"):
        del builtins.pu
    saved = settings.XDG_CONFIG_HOME, settings.XDG_CONFIG_DIRS
    already_loaded = settings._config_[0] is not None
    settings.XDG_CONFIG_HOME, settings.XDG_CONFIG_DIRS = None, [_users_folder()]
    try:
        loaded = settings.load_config()
        # PuDB's welcome is hidden even if the program uses PuDB itself: the dialog would read keys meant for the stop.
        loaded["seen_welcome"] = _Seen(loaded["seen_welcome"])
        from pudb import debugger

        # PuDB's window needs an existing folder, where it looks for old command lines. It writes nothing there.
        settings.XDG_CONFIG_HOME = os.path.dirname(os.path.dirname(debugger.__file__))  # noqa: PTH120
        settings.XDG_CONFIG_DIRS = []
        yield
    finally:
        # A program that uses PuDB by itself keeps its own configuration.
        settings.XDG_CONFIG_HOME, settings.XDG_CONFIG_DIRS = saved if already_loaded else (None, [])


def build(workplace: Workplace, *, readrc: bool) -> Engine:
    """Import PuDB and make its debugger; runs in the stopped thread, at the first attach."""
    with unwarned(), without_optional(), untraceable():
        from dbg_agent.debuggers.pudb import make

        return make(workplace)
