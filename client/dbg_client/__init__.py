"""Ask and watch the ranks of a running job from a program; the command ``dbg-attach`` is one face of this library.

::

    link = link_to_broker(None, 10.0)
    await link.open()
    directory = Directory()
    await list_ranks(link, directory, 10.0)
    answers = await Asker(link, directory, 10.0).ask(Action.EVAL, directory.ranks, "loss")
    await link.close()

Targets, ranks and messages are those of :mod:`dbg_wire`; every error is a :class:`dbg_wire.errors.DbgError`. All
objects belong to one event loop, and none touches the terminal. Names are loaded at first use, and may still change
from one release to the next.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .attachment.attachment import Attachment
    from .core.asking import Asker
    from .core.broker import link_to_broker
    from .core.choose import Choice, choose
    from .core.directory import Directory
    from .core.link import BrokerLink, Down, Up
    from .core.waiting import list_ranks, wait_for_stop

__all__ = [
    "Asker",
    "Attachment",
    "BrokerLink",
    "Choice",
    "Directory",
    "Down",
    "Up",
    "choose",
    "link_to_broker",
    "list_ranks",
    "wait_for_stop",
]

_MODULES = {
    "Asker": "core.asking",
    "Attachment": "attachment.attachment",
    "BrokerLink": "core.link",
    "Choice": "core.choose",
    "Directory": "core.directory",
    "Down": "core.link",
    "Up": "core.link",
    "choose": "core.choose",
    "link_to_broker": "core.broker",
    "list_ranks": "core.waiting",
    "wait_for_stop": "core.waiting",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
