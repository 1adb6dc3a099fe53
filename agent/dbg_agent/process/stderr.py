"""Write to the job's stderr, even if the program has replaced it, and never wait for its reader.

A launcher or log collector that doesn't read leaves a full pipe. A rank that waited for room would be stuck before a
terminal could attach to its stop. One line that finds no room waits in a thread of its own; those that come meanwhile
are lost.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
from contextlib import suppress
from typing import Any

_waiting: set[int] = set()
"""The id of this process, while one of its threads waits for room. No lock is used: a signal handler or finalizer may
call `say` while a line is written."""


def is_written() -> bool:
    """Tell whether no line waits to be written."""
    return os.getpid() not in _waiting


def say(text: str) -> None:
    """Write one line to the job's stderr; never raise nor wait."""
    line = f"dbg-agent: {text}\n"
    try:
        stream, own = sys.stderr, sys.__stderr__
        descriptor = _descriptor(stream)
        if descriptor is None:
            stream.write(line)
            stream.flush()
            return
        # The line doesn't go through the stream's buffer: with a full disk it would stay there, and the flush at the
        # exit would fail the whole job.
        data = line.encode(getattr(stream, "encoding", None) or "utf-8", "backslashreplace")
        if not is_written() or not _has_room(descriptor):
            _write_later(descriptor, data)
            return
        stream.flush()
        if own is None or stream is not own:
            stream.write(line)
            stream.flush()
        else:
            os.write(descriptor, data)
    except Exception:  # noqa: S110 - there is nowhere else to say it, and training must go on
        pass


def _descriptor(stream: Any) -> int | None:
    """Return the descriptor of a stream; None for a stream of the program without one."""
    try:
        return int(stream.fileno())
    except Exception:
        return None


def _has_room(descriptor: int) -> bool:
    """Tell whether a pipe takes PIPE_BUF bytes at least; a line of ours is far shorter."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


def _write_later(descriptor: int, data: bytes) -> None:
    if is_written():
        _waiting.add(os.getpid())
        try:
            _thread.start_new_thread(_write, (descriptor, data))
        except RuntimeError:
            # The process ends, or may start no more threads.
            _waiting.clear()


def _write(descriptor: int, data: bytes) -> None:
    """Write a line, and wait for room; in a thread of its own."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    # The program may have closed its stderr.
    with suppress(OSError):
        os.write(descriptor, data)
    _waiting.clear()
