"""Whether what comes out of a debugger is a fault of its views, or the program's own and to be passed on."""

from __future__ import annotations

import signal
import threading
from types import CodeType

from dbg_wire.errors import printable

from ..stop.interruptible import Interruptible
from ..stop.stacks import is_own
from .console import UNWINDING

MAX_WORDS = 200
"""Characters that are told of an error: a line or two."""


def is_fault(error: BaseException) -> bool:
    """Tell whether a debugger's view, or what of the program it looked at, has raised this or was interrupted.

    False for what leaves the debugger on purpose, and for what a signal handler of the program has raised meanwhile:
    that unwinds the program, as it would without us.
    """
    if isinstance(error, UNWINDING):
        return False
    if isinstance(error, KeyboardInterrupt):
        return is_interrupt(error)
    return isinstance(error, Exception) or not _comes_from_handler(error)


def is_fault_of_value(error: BaseException) -> bool:
    """Tell the same of what was raised while code of the program was run on purpose, as a repr is.

    That code may raise KeyboardInterrupt, too, and nobody can tell it from the one that Ctrl-C raises within it.
    """
    return isinstance(error, KeyboardInterrupt) or is_fault(error)


def is_interrupt(error: BaseException) -> bool:
    """Tell whether somebody at a terminal has interrupted what ran, in whatever thread."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    # Python raises what signal handlers raise in the main thread alone.
    elsewhere = threading.current_thread() is not threading.main_thread()
    return elsewhere or Interruptible.on_signal.__code__ in _codes_in_traceback(error)


def words_of(error: BaseException) -> str:
    """Return the error as part of a sentence, also if its own ``__str__`` fails."""
    name = type(error).__name__
    if is_interrupt(error):
        return "it was interrupted"
    try:
        text = str(error).partition("\n")[0]
    except BaseException as worse:
        if not is_fault_of_value(worse):
            raise
        text = "its text can't be had"
    return printable(f"{name}: {text}" if text else name, MAX_WORDS)


def _comes_from_handler(error: BaseException) -> bool:
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {getattr(handler, "__code__", None) for handler in handlers}
    return any(code in codes for code in _codes_in_traceback(error, own=False))


def _codes_in_traceback(error: BaseException, *, own: bool = True) -> list[CodeType]:
    codes = []
    traceback = error.__traceback__
    while traceback is not None:
        if own or not is_own(traceback.tb_frame):
            codes.append(traceback.tb_frame.f_code)
        traceback = traceback.tb_next
    return codes
