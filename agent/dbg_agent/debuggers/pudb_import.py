"""The import of PuDB without its traces: no file in the home, no name in builtins, no saved breakpoints.

PuDB writes its configuration when its debugger module is imported. A thousand ranks on a shared home would truncate
each other's file. Here PuDB finds no folder for it, so a full or missing disk is no obstacle either.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dbg_agent.process.imports import unwarned

if TYPE_CHECKING:
    from dbg_agent.debuggers.engine import Engine
    from dbg_agent.debuggers.workplace import Workplace


class _Seen(str):
    """The configuration's version of PuDB's welcome, which compares as newer than any welcome that PuDB has.

    Its text stays as it was read: a program that uses PuDB itself may save it, and PuDB then still greets in the next
    process.
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
    """Import and build PuDB inside this context; afterwards it can't write anywhere."""
    had_shortcut = hasattr(builtins, "pu")
    from pudb import settings

    if not had_shortcut and hasattr(builtins, "pu"):
        del builtins.pu
    saved = settings.XDG_CONFIG_HOME, settings.XDG_CONFIG_DIRS
    already_loaded = settings._config_[0] is not None
    settings.XDG_CONFIG_HOME, settings.XDG_CONFIG_DIRS = None, [_users_folder()]
    try:
        loaded = settings.load_config()
        # This holds also if the program uses PuDB itself: an unexpected dialog would take the keys of a stop.
        loaded["seen_welcome"] = _Seen(loaded["seen_welcome"])
        from pudb import debugger

        # PuDB's window needs a folder that exists, where it looks for old command lines. It writes nothing there.
        settings.XDG_CONFIG_HOME = os.path.dirname(os.path.dirname(debugger.__file__))  # noqa: PTH120
        settings.XDG_CONFIG_DIRS = []
        yield
    finally:
        # A program that uses PuDB by itself keeps its own configuration.
        settings.XDG_CONFIG_HOME, settings.XDG_CONFIG_DIRS = saved if already_loaded else (None, [])


def build(workplace: Workplace, *, readrc: bool) -> Engine:
    """Import PuDB and make its debugger; in the stopped thread, at the first attach."""
    with unwarned(), untraceable():
        from dbg_agent.debuggers.pudb import make

        return make(workplace)
