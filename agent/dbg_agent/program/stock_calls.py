"""A program's calls of stock debuggers, sent to the agent without a change of the program.

``pudb.remote.set_trace`` and ``remote_pdb.set_trace`` stop as :func:`dbg_agent.set_trace` does, for any host and port,
and so do all methods of a ``RemotePdb`` and a ``RemoteDebugger`` that open a debugger.
``torch.distributed.breakpoint`` stops as ``set_trace(ranks=…)`` does. None of these modules is imported for that: a
module that the program imports later is changed then. A name that the program imported before, by ``from pudb.remote
import set_trace``, keeps its meaning.
"""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType, ModuleType

from dbg_agent.program.entry import stop_at
from dbg_agent.program.stock_objects import METHODS, told_of_streams
from dbg_agent.when_imported import Change, forget, when_loaded

_replaced: list[tuple[object, str, object]] = []
"""Owner, name and former value of each changed attribute, for :func:`restore`."""

_INHERITED = object()
"""Stands for an attribute that a class has from its bases."""

_skipped: Counter[str] = Counter()
"""How often ``torch.distributed.breakpoint`` was passed over, by place."""

_redirected = False


def redirect() -> None:
    """Send the stock calls of this process to the agent, now or when their modules are imported; only once."""
    global _redirected  # noqa: PLW0603 - one per process, as the modules are
    if _redirected:
        return
    _redirected = True
    for name, change in _CHANGES.items():
        when_loaded(name, change)


def restore() -> None:
    """Give the stock calls back their former meaning; a ``RemotePdb`` made in between stays the agent's."""
    global _redirected  # noqa: PLW0603
    _redirected = False
    for name, change in _CHANGES.items():
        forget(name, change)
    while _replaced:
        owner, name, former = _replaced.pop()
        if former is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, former)


def _stop_where_called(frame: FrameType | None = None, *_where: object, **_how: object) -> None:
    stop_at(frame if isinstance(frame, FrameType) else sys._getframe(1), {}, ())


def _stop_as_remote_pdb(
    _host: object = None, _port: object = None, patch_stdstreams: object = False, *_how: object, **_more: object
) -> None:
    told_of_streams(patch_stdstreams)
    stop_at(sys._getframe(1), {}, ())


def _stop_one_rank(rank: object = 0, skip: object = 0, timeout_s: object = None) -> None:
    """Stop one rank and hold the others, as ``torch.distributed.breakpoint`` does, but outside of any collective.

    So no timeout changes, and ``timeout_s`` is ignored. The first ``skip`` calls at each place are passed over.
    """
    frame = sys._getframe(1)
    if isinstance(skip, int) and skip > 0:
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if _skipped[place] < skip:
            _skipped[place] += 1
            return
    stop_at(frame, {"ranks": rank, "hold": True}, ())


def _change_pudb(module: ModuleType) -> None:
    _replace(module, "set_trace", _stop_where_called)
    # All other functions of the module make an object of this class and call its methods.
    _change_class(module, "RemoteDebugger")


def _change_remote_pdb(module: ModuleType) -> None:
    _replace(module, "set_trace", _stop_as_remote_pdb)
    _change_class(module, "RemotePdb")


def _change_class(module: ModuleType, name: str) -> None:
    stock = getattr(module, name, None)
    if isinstance(stock, type):
        for method, by in METHODS.items():
            _replace(stock, method, by)


def _change_torch(module: ModuleType) -> None:
    _replace(module, "breakpoint", _stop_one_rank)


def _replace(owner: object, name: str, by: object) -> None:
    if getattr(owner, name, None) is not None:
        _replaced.append((owner, name, vars(owner).get(name, _INHERITED)))
        setattr(owner, name, by)


_CHANGES: dict[str, Change] = {
    "pudb.remote": _change_pudb,
    "remote_pdb": _change_remote_pdb,
    "torch.distributed": _change_torch,
}
