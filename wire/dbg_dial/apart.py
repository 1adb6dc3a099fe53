"""Calls that the kernel may never answer, such as those to a file server, each in a thread of its own.

A process whose main thread waits for a dead file server takes no Ctrl-C. The threads here are daemons, so that it ends
without them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from dbg_dial.find import Opening
from dbg_wire.errors import SilentFile

T = TypeVar("T")

FILE_SECONDS = 5.0
"""Seconds for the files of a home: they take milliseconds, and a file server that is only busy a second or two."""


def begin(call: Callable[[], object], tell: Callable[[Any, BaseException | None], object]) -> None:
    """Call something, and then ``tell`` what it returned or raised, both in a thread of their own."""

    def run() -> None:
        value: object = None
        raised: BaseException | None = None
        try:
            value = call()
        except BaseException as error:
            raised = error
        tell(value, raised)

    threading.Thread(target=run, name="dbg-apart", daemon=True).start()


def apart(path: str, call: Callable[[], T]) -> T:
    """Return what ``call`` returns, which touches this path, in a thread of its own; see :func:`read_apart`."""

    def read(opening: Opening) -> T:
        opening(path)
        return call()

    return read_apart(read)


def read_apart(read: Callable[[Opening], T]) -> T:
    """Return what ``read`` does in a thread of its own, to which it names each path before it touches it.

    Raise SilentFile after FILE_SECONDS; a thread that has touched nothing by then waits for its turn on a busy machine.
    Ctrl-C ends the wait at once.
    """
    touched: list[str] = []
    said: list[tuple[T, BaseException | None]] = []
    has_said = threading.Event()

    def tell(value: T, error: BaseException | None) -> None:
        said.append((value, error))
        has_said.set()

    begin(lambda: read(touched.append), tell)
    while not has_said.wait(FILE_SECONDS):
        if touched:
            raise SilentFile(touched[-1])
    ((value, raised),) = said
    if raised is not None:
        raise raised
    return value
