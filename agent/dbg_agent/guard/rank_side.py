"""The rank's side of its guard: a process beside it that tells the broker what the rank can't say any more.

A thread tells the guard through a pipe that the interpreter runs; it does nothing else, so that nothing but the
interpreter can keep it from that. faulthandler, all in C and without the
interpreter's lock, writes stacks into the same pipe: at fatal signals, and at a signal that the guard sends. A program
that uses faulthandler itself keeps it: whatever is not ours any more is left alone.

The guard asks only when the interpreter stands still, and asks that thread, which waits for it then. Elsewhere a
signal would cut short what the program waits in; and to walk the stack of a thread that runs may end the process, which
is why faulthandler's own watchdog is of no use here: it fires when a suspended process goes on.
"""

from __future__ import annotations

import faulthandler
import fcntl
import json
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress

from dbg_wire.environment import BROKER, HOME, TOKEN, TOKEN_FILE

from ..bounded import within
from .dumps import BEAT, CALM, END, LEAVE, MARK

BEAT_SECONDS = 5.0
"""Seconds between two beats: 10 µs and one wake-up each, which no measurement of training sees."""

STUCK_SECONDS = 10.0
"""Seconds without a beat after which the interpreter counts as stuck: twice the pause between two, so that one may come
late; a checkpoint that keeps the interpreter for some seconds is no news."""

REQUEST_SIGNAL = signal.SIGRTMIN + 8
"""Has the rank write its stacks: a real-time signal that no launcher, C library or debugger of ours uses."""

PIPE_BYTES = 256 * 1024
"""Bytes that the pipe holds while the guard gets no processor: a dump of 50 deep threads. Nothing waits for room."""

FIRST_DESCRIPTOR = 10
"""Descriptors below are left to the shell, which knows single digits only."""

SHELL = "/bin/sh"

END_SECONDS = 1.0
"""Seconds that a rank waits for its guard to end, or to be no child of it: milliseconds, unless it is just speaking."""

WAIT_BY_NUMBER = frozenset({"multiprocessing.popen_fork", "multiprocessing.forkserver", "subprocess", "pty"})
"""Modules that fork and then wait for none but their own child."""

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "process.py")  # noqa: PTH100, PTH118, PTH120

KEPT_VARIABLES = (BROKER, TOKEN_FILE, TOKEN, HOME, "XDG_STATE_HOME", "HOME")
"""What says where the broker is; told through the pipe, as the program may have changed it since it began."""

LEFT_OUT_VARIABLES = (TOKEN, "LD_PRELOAD")
"""Not in the guard's environment: secrets, and libraries that profile or allocate for the rank."""


_guard: Guard | None = None
_hooks_registered = False


def start(key: Callable[[], str], broker: str | None, registration: str) -> None:
    """Have a guard beside this process, unless it has one. Raise OSError if there can be none.

    ``key`` returns what the broker knows the rank by, ``broker`` and ``registration`` are what was given for its
    address, and what the rank has said of itself.
    """
    global _guard, _hooks_registered  # noqa: PLW0603 - one per process
    if _guard is not None:
        return
    guard = Guard(key, broker, registration)
    if not _hooks_registered:
        _hooks_registered = True
        os.register_at_fork(before=_make_room, after_in_child=_forget)
    guard.start()
    _guard = guard


def stop() -> None:
    """Take back what is still ours; the guard ends by itself."""
    global _guard
    guard, _guard = _guard, None
    if guard is not None:
        guard.stop()


def calm() -> None:
    """Expect no more beats, since the process ends, which may take long; fatal signals are still told."""
    if _guard is not None:
        _guard.calm()


def end() -> None:
    """End the guard and wait for it, within a second, as the last thing that a process does which ends by itself.

    A guard that outlived its rank would be a zombie where process 1 waits for nobody, as in many containers. A fatal
    signal from here on writes the stack to stderr.
    """
    global _guard
    guard, _guard = _guard, None
    if guard is not None:
        guard.end()


def _make_room() -> None:
    """Have a program that forks by itself find no child but its own: it may wait for any, or for all of them."""
    caller = sys._getframe().f_back
    name = caller.f_globals.get("__name__") if caller is not None else None
    if _guard is not None and name not in WAIT_BY_NUMBER:
        _guard.leave()


def _forget() -> None:
    global _guard
    guard, _guard = _guard, None
    if guard is not None:
        guard.forget()


class _PipeEnd:
    """Be the file that faulthandler keeps: as long as this lives, what was set up with it has not been replaced."""

    __slots__ = ("__weakref__", "_descriptor")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the pipe's writing end."""
        return self._descriptor

    def flush(self) -> None:
        """Do nothing; nothing is buffered."""


_Held = weakref.ReferenceType[_PipeEnd]


class Guard:
    """Have a guard for this process, from :meth:`start` to :meth:`stop`; each is called once, from any thread."""

    def __init__(self, key: Callable[[], str], broker: str | None, registration: str = "") -> None:
        self._key = key
        self._registration = registration
        self._broker = broker
        # Reentrant: a signal handler of the program may come here while its thread is here.
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._read, self._write = -1, -1
        self._identity: tuple[int, int] | None = None
        self._thread: int | None = None
        self._is_calm = False
        self._child: int | None = None
        self._no_child = threading.Event()
        self._fatal: _Held | None = None
        self._request: _Held | None = None
        self.pid = os.getpid()

    # ------------------------------------------------------------------------------------------------- any thread

    def start(self) -> None:
        """Start the guard and have faulthandler write to it. Raise OSError if there can be none."""
        with self._lock:
            self._open_pipe()
            try:
                self._tell_about_rank()
                self._child = _start_process(self._read)
                threading.Thread(target=self._reap, args=(self._child,), name="dbg-agent-reaper", daemon=True).start()
                thread = threading.Thread(target=self._run, name="dbg-agent-guard", daemon=True)
                thread.start()
                self._thread = thread.native_id
                # The thread's own first beat may never come: the program may keep the interpreter from here on.
                self._say(BEAT)
            except BaseException:
                self._close_pipe()
                raise
            self._enable()

    def stop(self) -> None:
        """Take back what is still ours; the guard ends by itself."""
        with self._lock:
            self._say(END)
            self._let_go()

    def end(self) -> None:
        """Do as :meth:`stop` does, wait until the guard has ended, and leave fatal signals to stderr."""
        had_fatal = _is_held(self._fatal)
        self.stop()
        self._no_child.wait(END_SECONDS)
        if had_fatal:
            # stderr may be closed, or no file.
            with suppress(Exception):
                faulthandler.enable(all_threads=True)

    def leave(self) -> None:
        """Have the guard be no child of this process; it stays."""
        if self._child is not None:
            self._child = None
            with self._lock:
                self._say(LEAVE)
            self._no_child.wait(END_SECONDS)

    def _let_go(self) -> None:
        with self._lock:
            if _is_held(self._fatal):
                faulthandler.disable()
            if _is_held(self._request):
                faulthandler.unregister(REQUEST_SIGNAL)
            self._fatal = self._request = None
            self._close_pipe()
            self._stopping.set()

    def calm(self) -> None:
        """Expect no more beats."""
        with self._lock:
            self._is_calm = True
            self._say(CALM)
            self._stopping.set()

    def forget(self) -> None:
        """Leave the parent's guard alone, in a forked child."""
        # The parent's threads may have held them.
        self._lock, self._stopping = threading.RLock(), threading.Event()
        self._child = None
        self._let_go()

    # ---------------------------------------------------------------------------------------------- threads of its own

    def _reap(self, child: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        # The program may have waited for it.
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
        self._child = None
        self._no_child.set()

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() - {REQUEST_SIGNAL})
        self._thread = threading.get_native_id()
        while self._beat():
            self._stopping.wait(BEAT_SECONDS)

    def _beat(self) -> bool:
        """Tell the guard that the interpreter runs; return whether to go on with that."""
        with self._lock:
            if self._is_calm or self._write < 0:
                return False
            if not self._is_our_pipe():
                # The program has closed all descriptors, as daemons do, and the number may be its own by now.
                self._read = self._write = -1
                self._let_go()
                return False
            self._say(BEAT)
            return True

    # -------------------------------------------------------------------------------------------------------- inner

    def _enable(self) -> None:
        if not faulthandler.is_enabled():
            end = _PipeEnd(self._write)
            self._fatal = weakref.ref(end)
            faulthandler.enable(file=end, all_threads=True)
        if signal.getsignal(REQUEST_SIGNAL) is signal.SIG_DFL:
            end = _PipeEnd(self._write)
            self._request = weakref.ref(end)
            faulthandler.register(REQUEST_SIGNAL, file=end, all_threads=True, chain=False)

    def _open_pipe(self) -> None:
        read, write = os.pipe()
        try:
            self._read = fcntl.fcntl(read, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR)
            self._write = fcntl.fcntl(write, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR)
        finally:
            os.close(read)
            os.close(write)
        # The rank keeps the reading end: without a reader the next byte would be a SIGPIPE, which may be fatal here.
        os.set_blocking(self._write, False)
        with suppress(OSError):
            fcntl.fcntl(self._write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        status = os.fstat(self._write)
        self._identity = status.st_dev, status.st_ino

    def _is_our_pipe(self) -> bool:
        try:
            status = os.fstat(self._write)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def _close_pipe(self) -> None:
        ends, self._read, self._write = (self._read, self._write), -1, -1
        for end in ends:
            with suppress(OSError):
                os.close(end)

    def _tell_about_rank(self) -> None:
        # A signal of the program's own would take other actions than to write stacks.
        may_ask = signal.getsignal(REQUEST_SIGNAL) is signal.SIG_DFL
        told = {
            "key": self._key(),
            "main": threading.main_thread().ident,
            "signal": REQUEST_SIGNAL if may_ask else 0,
            "stuck": STUCK_SECONDS,
            "broker": self._broker,
            "registration": self._registration,
            "environ": {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
            "path": [os.path.abspath(folder) for folder in sys.path if isinstance(folder, str)],  # noqa: PTH100
        }
        line = f"{self.pid} {STUCK_SECONDS} {json.dumps(told)}\n".encode()
        if os.write(self._write, line) != len(line):
            raise OSError("what the guard must know doesn't fit into its pipe")

    def _say(self, word: str) -> None:
        if not self._is_our_pipe():
            return
        line = f"{MARK}{word} {self._thread or 0} {self._key()}\n"
        # Short enough to be written whole or, if the guard doesn't read, not at all.
        with suppress(OSError):
            os.write(self._write, line.encode("ascii", "replace"))


def _is_held(end: _Held | None) -> bool:
    return end is not None and end() is not None


def _start_process(read: int) -> int:
    """Start the guard and return its process id; raise OSError if that fails.

    By a shell that becomes it: the interpreter may lie on a file system that does not answer, and the kernel would keep
    whoever starts it.
    """
    python = sys.executable
    # One that can't be looked at in time is tried all the same.
    if not python or not within(END_SECONDS, lambda: os.access(python, os.X_OK), True):
        raise OSError(f"no Python interpreter at {sys.executable!r}")
    command = [SHELL, "-c", 'exec "$@" <&3 3<&-', "sh", sys.executable, "-I", "-S", "-B", SCRIPT]
    return os.posix_spawn(
        SHELL,
        command,
        _environment(os.environ),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
            (os.POSIX_SPAWN_DUP2, read, 3),
        ],
        setsigmask=[],
        setsigdef=[signal.SIGCHLD],
    )


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in LEFT_OUT_VARIABLES}
