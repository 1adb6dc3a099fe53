"""Write to the job's stderr, even if the program has replaced it, and never wait for its reader.

A launcher or log collector that doesn't read leaves a full pipe. A rank that waited for room would be stuck before a
terminal could attach to its stop. A line that finds no room is written later, by a thread of its own.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import stat
import sys
from collections import deque
from typing import Any

MAX_WAITING = 64
"""Lines that may wait for room; then the oldest is dropped, as the newest lines tell the present state."""

PIPE_BYTES = select.PIPE_BUF
"""Bytes that a pipe takes whole or not at all; a line of ours is far shorter."""

# No lock is used, not even to start a thread: a signal handler or finalizer may call `say` while a line is written.
_waiting: deque[tuple[int, int, bytes]] = deque(maxlen=MAX_WAITING)
"""Process id, descriptor and bytes of each waiting line: a forked child inherits the lines, and must not write them."""

_writers: set[int] = set()
"""The id of this process, while one of its threads writes the waiting lines."""


def is_written() -> bool:
    """Tell whether no line waits to be written."""
    return os.getpid() not in _writers


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
        if os.getpid() in _writers or not _has_room(descriptor):
            _write_later(descriptor, data)
            return
        stream.flush()
        if own is None or stream is not own:
            stream.write(line)
            stream.flush()
        elif not _write(descriptor, data):
            _write_later(descriptor, data)
    except Exception:  # noqa: S110 - there is nowhere else to say it, and training must go on
        pass


def _descriptor(stream: Any) -> int | None:
    """Return the descriptor of a stream; None for a stream of the program without one."""
    try:
        return int(stream.fileno())
    except Exception:
        return None


def _has_room(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


def _write(descriptor: int, data: bytes) -> bool:
    """Write without waiting; tell whether there was room."""
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode) or len(data) > PIPE_BYTES:
        os.write(descriptor, data)
        return True
    try:
        # The pipe is opened anew with O_NONBLOCK: another process may have filled it since the check for room, and a
        # flag of the existing open file would be set for all processes that share it.
        own = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        os.write(descriptor, data)
        return True
    try:
        os.write(own, data)
    except BlockingIOError:
        return False
    finally:
        os.close(own)
    return True


def _write_later(descriptor: int, data: bytes) -> None:
    _waiting.append((os.getpid(), descriptor, data))
    _begin_to_write()


def _begin_to_write() -> None:
    if os.getpid() not in _writers:
        _writers.add(os.getpid())
        try:
            _thread.start_new_thread(_write_waiting, ())
        except RuntimeError:
            # The process ends, or may start no more threads. The line waits for the next call of `say`.
            _writers.clear()


def _write_waiting() -> None:
    """Write the waiting lines, and wait for room; in a thread of its own."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        while _waiting:
            process, descriptor, data = _waiting.popleft()
            if process == os.getpid():
                os.write(descriptor, data)
    except (OSError, IndexError):
        # The program has closed its stderr.
        _waiting.clear()
    finally:
        _writers.clear()
        if _waiting:
            # A line has come after the loop found the queue empty.
            _begin_to_write()
