"""Redirection of breakpoint calls in users' code to the agent, without a change of the program.

No module is imported for this: a module that the program imports later is changed at its import. In each function the
code object is replaced. So a name that was imported before, as by ``from pdb import set_trace``, is redirected, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

from dbg_agent import carry_out, set_trace
from dbg_agent.process.imports import Change, forget, when_loaded
from dbg_agent.process.log import write_stderr

UNSET = "breakpoint_() stops no rank because RANK_TO_DEBUG is not set; set it to the rank to stop"


def _stop_at(frame: FrameType, **arguments: object) -> None:
    carry_out("set_trace", lambda: _entry().stop_at, frame, arguments, ())


def _entry() -> Any:
    """Return the module that makes this process a rank. It is loaded at the first breakpoint of the process."""
    from dbg_agent.program import entry

    return entry


def _frame_of(frame: object = None) -> FrameType:
    """Return the frame to stop at: the first one outside stock debuggers, from ``frame`` or the caller's outward."""
    found = frame if isinstance(frame, FrameType) else sys._getframe(1)
    while found.f_back is not None and found.f_globals.get("__name__") in _SKIPPED:
        found = found.f_back
    return found


class _Debugger:
    """Stand-in for a stock debugger: its methods call the agent. They also replace the methods of stock classes."""

    def __init__(self, *_where: object, **_how: object) -> None:
        """Initialize the object without the listening and waiting of stock debuggers."""
        # The object may be of a stock class. Its class is changed, so that it keeps the agent's methods even after
        # `uninstall()`. A stock method would try to close a connection that was never opened.
        self.__class__ = _Debugger

    def set_trace(self, frame: object = None, *_how: object, paused: bool = True, **_more: object) -> None:
        """Stop at a frame, by default the caller's; PuDB's ``paused=False`` only prepares a stop."""
        if paused:
            _stop_at(_frame_of(frame))

    async def set_trace_async(self, frame: object = None, **_how: object) -> None:
        """Stop at a frame, by default that of the awaiting coroutine, and await expressions typed there."""
        stop = carry_out("set_trace", lambda: _entry().stop_async, _frame_of(frame), {})
        if isinstance(stop, Awaitable):
            await stop

    def close_remote_session(self) -> None:
        """Do nothing: the object has no session of its own. PuDB calls this as the program ends."""


_STOPS: dict[str, Callable[..., Any]] = {"set_trace": _Debugger.set_trace, "set_trace_async": _Debugger.set_trace_async}

_METHODS: dict[str, Callable[..., Any]] = {
    "__init__": _Debugger.__init__,
    "close_remote_session": _Debugger.close_remote_session,
    **_STOPS,
}
"""The agent's methods by name; each replaces the stock class's method, if the class has it."""

_STAND_IN = _Debugger()


def _post_mortem(*raised: object, **named: object) -> None:
    """Keep the rank where an exception was raised, by default the exception that is being handled."""
    # PuDB's function accepts a traceback, the class of its exception, and the exception.
    found = (_error_of(one) for one in reversed((*raised, *named.values())))
    error = next((one for one in found if one is not None), sys.exc_info()[1])
    carry_out("post_mortem", lambda: _entry().keep_here, error, {}, ())


def _error_of(raised: object) -> BaseException | None:
    """Return the exception in ``raised``: an exception, a traceback or a result of ``sys.exc_info``; else None."""
    if isinstance(raised, BaseException):
        return raised
    if isinstance(raised, TracebackType):
        current = sys.exc_info()[1] or getattr(sys, "last_value", None)
        error = current if isinstance(current, BaseException) else Exception("only the traceback is known")
        return error.with_traceback(raised)
    if isinstance(raised, tuple) and len(raised) == 3:
        return _error_of(raised[1])
    return None


# ------------------------------------------------------------------------------------- functions that stop some ranks


_skipped: dict[str, int] = {}
"""Number of skipped calls of ``torch.distributed.breakpoint``, by place."""


def _stop_one_rank(rank: object = 0, skip: object = 0, timeout_s: object = None) -> None:
    """Stop one rank and hold the others, as ``torch.distributed.breakpoint`` does, but outside of any collective.

    So the timeout of collectives needn't be changed, and ``timeout_s`` is ignored. The first ``skip`` calls at each
    place are skipped. If torch's ranks are threads of one process, the other ranks are not held: they wait for the
    stopped one in their next collective.
    """
    frame = _frame_of()
    if isinstance(skip, int) and skip > 0:
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        passed = _skipped.get(place, 0)
        if passed < skip:
            _skipped[place] = passed + 1
            return
    here = _rank_of_thread()
    if here is None:
        _stop_at(frame, ranks=rank, hold=True)
    elif here == rank:
        _stop_at(frame)


def _rank_of_thread() -> object:
    """Return the rank number of the calling thread if torch's ranks are threads of one process, else None."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    is_threaded = type(getattr(c10d, "_world", None)).__name__ == "ThreadLocalWorld"
    return c10d.get_rank() if is_threaded and c10d.is_initialized() else None


def _stop_rank_to_debug(non_block: bool = True) -> None:
    """Stop the rank that ``RANK_TO_DEBUG`` names, as MindSpeed does, and hold the others unless ``non_block``."""
    chosen = os.environ.get("RANK_TO_DEBUG")
    if chosen:
        _stop_at(_frame_of(), ranks=chosen, hold=not non_block)
    else:
        from dbg_agent.program.own_rank import warn

        warn(UNSET)


# -------------------------------------------------------------------------------------------------------- redirection


_replaced: list[tuple[object, str, object]] = []
"""Owner, name and former value of each changed attribute, for :func:`restore`."""

_INHERITED = object()
"""Stands in :data:`_replaced` for the former value of an attribute that the class had only inherited."""

_redirected = False


def redirect() -> None:
    """Redirect the breakpoints of this process to the agent, now or when their modules are imported; only once."""
    global _redirected  # noqa: PLW0603 - one per process, as the modules are
    if _redirected:
        return
    _redirected = True
    # If PYTHONBREAKPOINT is set, breakpoint() is not changed: the value 0 switches it off, and any other value names a
    # function, which is redirected itself if it belongs to a known debugger.
    if not os.environ.get("PYTHONBREAKPOINT"):
        _replace(sys, "breakpointhook", sys.breakpointhook, set_trace)
    for name, change in _CHANGES.items():
        when_loaded(name, change)


def restore() -> None:
    """Undo :func:`redirect`. A ``RemotePdb`` object that was created before this call continues to call the agent."""
    global _redirected  # noqa: PLW0603
    _redirected = False
    for name, change in _CHANGES.items():
        forget(name, change)
    while _replaced:
        owner, name, former = _replaced.pop()
        if former is _INHERITED:
            delattr(owner, name)
        elif owner is not sys or sys.breakpointhook is set_trace:
            setattr(owner, name, former)


def _replace(owner: object, name: str, former: object, by: object) -> None:
    _replaced.append((owner, name, former))
    setattr(owner, name, by)


_BY_NAME: dict[str, Callable[..., Any]] = {}
"""The agent's functions that replace redirected ones, by the redirected function's name with its module."""


def _dbg_agent_redirected(*arguments: Any, **named: Any) -> Any:
    from dbg_agent.program.stock_calls import call

    return call("NAME", *arguments, **named)


def call(name: str, /, *arguments: Any, **named: Any) -> Any:
    """Run the replacement of a redirected function."""
    return _BY_NAME[name](*arguments, **named)


# This attribute makes torch.compile skip the function, because it can't compile a function that stops.
vars(call)["_torchdynamo_disable"] = True


def _functions(**functions: Callable[..., Any]) -> Change:
    """Return a change that makes these functions of a module call the agent's functions."""

    def change(module: ModuleType) -> None:
        for name, by in functions.items():
            function = getattr(module, name, None)
            if isinstance(function, FunctionType):
                code, full_name = _dbg_agent_redirected.__code__, f"{module.__name__}.{name}"
                _BY_NAME[full_name] = by
                constants = tuple(full_name if constant == "NAME" else constant for constant in code.co_consts)
                _replace(function, "__code__", function.__code__, code.replace(co_consts=constants))
            elif function is not None:
                write_stderr(
                    f"{module.__name__}.{name} is not a Python function, so it can't be redirected; use breakpoint()"
                )

    return change


def _methods(name: str) -> Change:
    """Return a change that makes the methods of a module's class call the agent's methods."""

    def change(module: ModuleType) -> None:
        stock = getattr(module, name, None)
        for method, by in _METHODS.items():
            if hasattr(stock, method):
                _replace(stock, method, vars(stock).get(method, _INHERITED), by)

    return change


def _change_pdb(module: ModuleType) -> None:
    """Make pdb's objects call the agent, including objects of a program's subclasses."""
    # pytest replaces `pdb.set_trace` by a method that makes a `Pdb` object. This object calls the agent, so the method
    # stays.
    if isinstance(module.set_trace, FunctionType):
        _functions(set_trace=_STAND_IN.set_trace, set_trace_async=_STAND_IN.set_trace_async)(module)
    _functions(post_mortem=_post_mortem)(module)
    stock = module.Pdb
    for name, by in _STOPS.items():
        if hasattr(stock, name):
            _replace(stock, name, vars(stock).get(name, _INHERITED), _on_standard_streams(getattr(stock, name), by))


def _change_remote_pudb(module: ModuleType) -> None:
    _methods("RemoteDebugger")(module)
    _functions(post_mortem=_post_mortem)(module)


def _on_standard_streams(stock: Callable[..., Any], by: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method for ``Pdb``: it calls the agent, or pdb's own method if the object has its own streams."""

    def method(debugger: Any, *arguments: Any, **named: Any) -> Any:
        if getattr(debugger, "use_rawinput", True):
            return by(debugger, *arguments, **named)
        if not arguments:
            named.setdefault("frame", _frame_of())
        return stock(debugger, *arguments, **named)

    vars(method)["_torchdynamo_disable"] = True
    return method


_CHANGES: dict[str, Change] = {
    "pdb": _change_pdb,
    "pudb": _functions(
        set_trace=_STAND_IN.set_trace,
        _get_debugger=_Debugger,
        set_interrupt_handler=lambda *_: None,
        post_mortem=_post_mortem,
    ),
    "pudb.forked": _functions(set_trace=_STAND_IN.set_trace),
    "pudb.remote": _change_remote_pudb,
    "remote_pdb": _methods("RemotePdb"),
    "ipdb.__main__": _functions(_init_pdb=_Debugger, post_mortem=_post_mortem),
    "torch.distributed": _functions(breakpoint=_stop_one_rank),
    # This module is part of MindSpeed.
    "tools.debug_utils.pdb_utils": _functions(breakpoint_=_stop_rank_to_debug, clear_=lambda: None),
}

_SKIPPED = frozenset({__name__, "importlib._bootstrap", "importlib._bootstrap_external", *_CHANGES})
"""Modules whose frames are skipped in the search for the program's line that has requested a stop."""
