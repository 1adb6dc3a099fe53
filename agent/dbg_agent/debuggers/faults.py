"""The faults of a debugger in the program's thread.

A fault of a debugger is shown to the user. An exception that belongs to the program must propagate.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import CodeType

from dbg_agent.debuggers.console import UNWINDING
from dbg_agent.process.log import is_from_handler
from dbg_agent.stop.interruptible import Interruptible
from dbg_wire.errors import printable

MAX_WORDS = 200
"""Maximum number of characters shown of an error's text: a line or two."""


def is_fault(error: BaseException) -> bool:
    """Return True if a debugger's view, a value that it inspected, or an interrupt from a terminal raised this.

    Return False for an exception that leaves the debugger on purpose, and for an exception that a signal handler of the
    program has raised. The handler's exception unwinds the program, as it would without the agent.
    """
    if isinstance(error, UNWINDING):
        return False
    if isinstance(error, KeyboardInterrupt):
        return is_interrupt(error)
    return isinstance(error, Exception) or not is_from_handler(error)


def is_fault_of_value(error: BaseException) -> bool:
    """Return the same as :func:`is_fault`, for an exception from code of the program that the debugger called.

    Every KeyboardInterrupt is a fault here. The program's code may raise KeyboardInterrupt itself, and this can't be
    distinguished from Ctrl-C.
    """
    return isinstance(error, KeyboardInterrupt) or is_fault(error)


def is_interrupt(error: BaseException) -> bool:
    """Return True if a terminal has interrupted the command, in any thread."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    # Signal handlers run only in the main thread, so in another thread only a terminal causes a KeyboardInterrupt.
    elsewhere = threading.current_thread() is not threading.main_thread()
    return elsewhere or Interruptible.on_signal.__code__ in _codes_in_traceback(error)


def error_text(error: BaseException) -> str:
    """Return the error as part of a sentence, even if its own ``__str__`` fails."""
    name = type(error).__name__
    if is_interrupt(error):
        return "it was interrupted"
    try:
        text = str(error).partition("\n")[0]
    except BaseException as worse:
        if not is_fault_of_value(worse):
            raise
        text = "its text can't be read"
    return printable(f"{name}: {text}" if text else name, MAX_WORDS)


def _codes_in_traceback(error: BaseException) -> Iterator[CodeType]:
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame.f_code
        traceback = traceback.tb_next
