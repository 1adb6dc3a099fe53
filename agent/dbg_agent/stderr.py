"""Write to the job's stderr, whatever the program has made of it, and never wait for whoever reads it.

A launcher or log collector that doesn't read leaves a full pipe, in which a stopped rank would be stuck before anybody
could attach to it. What finds no room is written by a thread of its own, once there is some.
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
"""Lines that wait for room; of more the oldest are dropped: whoever reads at last wants to know how it stands now."""

PIPE_BYTES = select.PIPE_BUF
"""Bytes that a pipe takes whole or not at all; a line of ours is far shorter."""

# No lock, neither here nor in starting a thread: a signal handler or finalizer may say something in the midst of this.
_waiting: deque[tuple[int, int, bytes]] = deque(maxlen=MAX_WAITING)
"""Process, descriptor and bytes: a forked child inherits them, and they are not its own."""

_writers: set[int] = set()
"""The process, while a thread of it writes what waits."""


def is_written() -> bool:
    """Tell whether no line waits to be written."""
    return os.getpid() not in _writers


def say(text: str) -> None:
    """Write one line to the job's stderr; never raise nor wait, whatever the program made of it."""
    line = f"dbg-agent: {text}\n"
    try:
        stream, own = sys.stderr, sys.__stderr__
        descriptor = _descriptor(stream)
        if descriptor is None:
            stream.write(line)
            stream.flush()
            return
        # Past its buffer: what a full disk doesn't take would stay there, and fail the whole job at its exit.
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
    """Return the file behind a stream; None if it has none, and then it is the program's own affair."""
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
        # Opened anew, since other processes write to the same pipe: the last room may be theirs by now, and a flag set
        # on what is open already would be set for all of them.
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
            # The process ends, or may have no thread more; the line waits for the next one.
            _writers.clear()


def _write_waiting() -> None:
    """Write what waits, however long that takes; in a thread of its own."""
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
            # It came when this had found nothing more.
            _begin_to_write()
