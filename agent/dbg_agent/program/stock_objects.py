"""The methods of stock debugger objects, ``RemotePdb`` and ``RemoteDebugger``, as the agent does them.

They neither listen nor dial. They raise the exceptions of the program's own code, and none of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType, MethodType, TracebackType
from typing import Any

from dbg_agent.program.entry import keep_here, stop_at
from dbg_agent.stderr import say

_told = False


def told_of_streams(patch_stdstreams: object) -> None:
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
        told_of_streams(patch_stdstreams)
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
