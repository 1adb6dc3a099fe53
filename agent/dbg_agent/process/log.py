"""Lines for the job's stderr, and the log of a rank, which is off unless DBG_LOG names a file.

`write_stderr` writes to stderr even if the program has replaced it, and never waits for the reader. If stderr is a pipe
that a launcher or log collector doesn't read, the pipe fills up. A rank that waited for room would be stuck before a
terminal could attach to its stop. One line that finds no room waits in a separate thread; later lines are lost until it
is written.

The log is for debugging the debugger; ``docs/reference/log-lines.md`` lists its events. The standard library's logging
is not used. A thread of the program that stopped inside it would hold locks that the agent's threads need. The log has
no lock, because a signal handler may stop the rank while a line is written. Each line is one write at the end of the
file.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dbg_wire.errors import printable

VARIABLE = "DBG_LOG"

MAX_FILE = 16 * 1024 * 1024
"""Maximum size of the file in bytes, for all processes that write to it together; a full file gets no more lines."""

MAX_LINE = 1000
"""Maximum number of characters of a line."""

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class _Log:
    """The one log of this process; ``file`` is the path of the file, empty while nothing is logged."""

    path = file = ""
    name = "?"
    secrets: tuple[str, ...] = ()


_log = _Log()


class Logger:
    """A source of events under one name. Its methods never raise; without a log, an event costs an attribute access."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def is_on(self) -> bool:
        """Whether events are written."""
        return bool(_log.file)

    def info(self, event: str, *values: object) -> None:
        """Log an event that happens a few times in the life of a rank; ``event % values`` is the text."""
        if _log.file:
            _write("INFO", self.name, event, values)

    def debug(self, event: str, *values: object) -> None:
        """Log an event that may happen many times a second."""
        if _log.file:
            _write("DEBUG", self.name, event, values)


def open_log(environ: Mapping[str, str], name: str) -> None:
    """Start logging if DBG_LOG names a file; ``name`` is this rank's address. Never raise.

    The file is created with mode 0600. A symbolic link, a file of another user, and a file that is not regular are
    rejected with a line on stderr.
    """
    path = environ.get(VARIABLE, "")
    _log.name = name
    if path == _log.path:
        return
    _log.path, _log.file = path, ""
    try:
        if path:
            os.close(_opened(path))
            _log.file = path
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        write_stderr(f"{VARIABLE}: nothing is logged to {printable(path)}: {why}")


def hide(secret: str | None) -> None:
    """Replace this text by ``<token>`` in all later lines."""
    if secret and secret not in _log.secrets:
        _log.secrets = (*_log.secrets, secret)


def _opened(path: str) -> int:
    """Return a descriptor of the file; raise OSError or ValueError."""
    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is not a regular file")
        if found.st_uid != os.geteuid():
            raise OSError(f"it belongs to user {found.st_uid}")
        os.fchmod(descriptor, 0o600)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _write(level: str, logger: str, event: str, values: tuple[object, ...]) -> None:
    try:
        now = time.time()
        moment = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))}.{int(now % 1 * 1000):03}"
        text = event % values if values else event
        for secret in _log.secrets:
            text = text.replace(secret, "<token>")
        line = f"{moment} {_log.name} {os.getpid()} {level} {logger}: {printable(text, MAX_LINE)}\n"
        data = line.encode("utf-8", "backslashreplace")
        # The file is opened for each line, because the program may close a descriptor that stays open. The program's
        # next file would then get the same number, and the log would write its lines into the program's file.
        descriptor = _opened(_log.file)
        try:
            if os.fstat(descriptor).st_size + len(data) <= MAX_FILE:
                os.write(descriptor, data)
                return
        finally:
            os.close(descriptor)
        _log.file = ""
        write_stderr(f"{VARIABLE}: {printable(_log.path)} has reached {MAX_FILE // 2**20} MiB; nothing more is logged")
    except Exception:  # noqa: S110 - a log must not end a training job
        pass


_waiting: set[int] = set()
"""Contains the id of this process while one of its threads waits for room in stderr. No lock is used, because a signal
handler or finalizer may call `write_stderr` while a line is written."""


def is_written() -> bool:
    """Return True if no line is waiting to be written."""
    return os.getpid() not in _waiting


def write_stderr(text: str) -> None:
    """Write one line to the job's stderr without waiting; raise only exceptions of the program's signal handlers."""
    line = f"dbg-agent: {text}\n"
    try:
        stream, own = sys.stderr, sys.__stderr__
        descriptor = _descriptor(stream)
        if descriptor is None:
            stream.write(line)
            stream.flush()
            return
        # The line bypasses the stream's buffer. If the disk were full, a buffered line would stay there, and the flush
        # at the exit would fail the whole job.
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
    except Exception as error:
        # There is no other place to report this, and training must continue.
        if is_from_handler(error):
            raise


def is_from_handler(error: BaseException) -> bool:
    """Return True if a signal handler of the program has raised this error while other code was running."""
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {getattr(one, "__code__", None) for one in handlers if not _is_own(getattr(one, "__module__", None))}
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code not in codes:
        traceback = traceback.tb_next
    return traceback is not None


def _is_own(module: object) -> bool:
    return isinstance(module, str) and module.startswith("dbg_agent.")


def _descriptor(stream: Any) -> int | None:
    """Return the descriptor of a stream, or None if the program's stream has none."""
    try:
        return int(stream.fileno())
    except Exception:
        return None


def _has_room(descriptor: int) -> bool:
    """Return True if a pipe has room for at least PIPE_BUF bytes; the agent's lines are far shorter."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


def _write_later(descriptor: int, data: bytes) -> None:
    if is_written():
        _waiting.add(os.getpid())
        try:
            _thread.start_new_thread(_put, (descriptor, data))
        except RuntimeError:
            # The process is ending, or the system allows it no more threads.
            _waiting.clear()


def _put(descriptor: int, data: bytes) -> None:
    """Write a line and wait for room; runs in its own thread."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    # The program may have closed its stderr.
    with suppress(OSError):
        os.write(descriptor, data)
    _waiting.clear()
