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
from collections.abc import Callable, Mapping
from types import FrameType, MethodType, ModuleType, TracebackType
from typing import Any

from dbg_agent.process.imports import Change, forget, when_loaded
from dbg_agent.process.stderr import say
from dbg_agent.program.entry import keep_here, stop_at

_told = False


def warn_of_streams(patch_stdstreams: object) -> None:
    """Say, once in this process, that ``patch_stdstreams`` is ignored, if the program has set it."""
    global _told  # noqa: PLW0603 - one per process
    if patch_stdstreams and not _told:
        _told = True
        say("patch_stdstreams is ignored: pdb's terminal has what is printed at its prompt, the program keeps its own")


def _begin(
    debugger: Any,
    _host: object = None,
    _port: object = None,
    patch_stdstreams: object = False,
    *_how: object,
    **_more: object,
) -> None:
    """Initialize a stock object without the listening and waiting of the stock ``__init__``."""
    if type(debugger).__name__ == "RemotePdb":
        warn_of_streams(patch_stdstreams)
    from bdb import Bdb

    Bdb.__init__(debugger)
    # PuDB's own code that closes the object reads these attributes.
    debugger._tty_file, debugger._current_debugger = None, []
    for name, method in METHODS.items():
        # The object keeps our methods after `uninstall()`, as it lacks what the stock methods need.
        if name != "__init__":
            setattr(debugger, name, MethodType(method, debugger))


def _stop(_debugger: object, frame: FrameType | None = None, *_how: object, **_more: object) -> None:
    stop_at(frame if isinstance(frame, FrameType) else sys._getframe(1), {}, ())


def _interact(_debugger: object, frame: object = None, raised: object = None, *_how: object, **_more: object) -> None:
    """Stop at a frame, or keep the rank where an exception was raised."""
    error = _error_of(raised)
    if error is not None:
        keep_here(error, {}, ())
    else:
        stop_at(frame if isinstance(frame, FrameType) else sys._getframe(1), {}, ())


def _error_of(raised: object) -> BaseException | None:
    """Return the exception of an exception, a traceback, or what ``sys.exc_info`` returns."""
    if isinstance(raised, BaseException):
        return raised
    if isinstance(raised, TracebackType):
        current = sys.exc_info()[1] or getattr(sys, "last_value", None)
        error = current if isinstance(current, BaseException) else Exception("of a traceback alone")
        return error.with_traceback(raised)
    if isinstance(raised, tuple) and len(raised) == 3:
        return _error_of(raised[1])
    return None


def _run(debugger: Any, cmd: Any, globals: Any = None, locals: Any = None) -> None:  # noqa: A002 - bdb's names
    variables, own = _namespaces(globals, locals)
    code = compile(cmd, "<string>", "exec") if isinstance(cmd, str) else cmd
    debugger.runcall(exec, code, variables, own)


def _run_in(debugger: Any, cmd: Any, globals: Any, locals: Any) -> None:  # noqa: A002
    debugger.run(cmd, globals, locals)


def _run_expression(debugger: Any, expr: Any, globals: Any = None, locals: Any = None) -> Any:  # noqa: A002
    variables, own = _namespaces(globals, locals)
    return debugger.runcall(eval, expr, variables, own)


def _namespaces(variables: Any, own: Any) -> tuple[Any, Any]:
    if variables is None:
        variables = vars(sys.modules["__main__"])
    return variables, variables if own is None else own


def _run_call(_debugger: object, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call the function and stop at the first line of the program that runs in it, as bdb does."""
    first = _FirstLine(sys.gettrace())
    sys.settrace(first.entered)
    try:
        return func(*args, **kwargs)
    finally:
        first.give_up()


class _FirstLine:
    """A trace function that stops once, before the first line of a called function."""

    def __init__(self, former: Any) -> None:
        self._former = former
        self._has_entered = False

    def entered(self, frame: FrameType, event: str, _argument: object) -> Any:
        """Trace the calls until the function begins; only its outermost frame is traced further."""
        if self._has_entered or event != "call" or frame.f_globals is globals():
            return None
        self._has_entered = True
        return self._reached

    def _reached(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            frame.f_trace = None
            self.give_up()
            stop_at(frame, {}, (), before_line=True)
        # A debugger that was opened has set its own function, with which its steps go on from here.
        return frame.f_trace

    def give_up(self) -> None:
        """Restore the program's own trace function, unless a debugger has set another."""
        if sys.gettrace() == self.entered:
            sys.settrace(self._former)


def _do_nothing(_debugger: object) -> None:
    """Do nothing: the object has no session of its own."""


METHODS: Mapping[str, Callable[..., Any]] = {
    "__init__": _begin,
    "set_trace": _stop,
    "interaction": _interact,
    "reset": _do_nothing,
    "run": _run,
    "runctx": _run_in,
    "runeval": _run_expression,
    "runcall": _run_call,
    "close_remote_session": _do_nothing,
}
"""Our methods by name; each replaces the stock class's method, if the class has it."""

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
    warn_of_streams(patch_stdstreams)
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
