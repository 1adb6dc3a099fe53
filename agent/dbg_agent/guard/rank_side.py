"""The rank's side of its guard, a helper process that reports problems that the rank itself can't report any more.

A thread of the rank writes beats into a pipe to the guard. The beats show that the interpreter runs. The thread does
nothing else, so only a stuck interpreter can delay a beat. faulthandler is all C and needs no GIL. It writes stacks
into the same pipe, at fatal signals and at a signal from the guard. If the program has set up faulthandler itself, the
agent does not change the program's settings.

The guard only requests stacks when the interpreter does not run. It sends the signal to the thread that writes beats,
because in another thread the signal would interrupt a system call of the program. faulthandler's own watchdog
(``dump_traceback_later``) is unsuitable: it fires when a suspended process continues, and it walks the stacks of
running threads, which may crash the process.
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
from functools import partial

from dbg_agent.host.proc import YAMA_SCOPE
from dbg_agent.link.link import broker_overrides
from dbg_agent.process.threads import own_thread, within
from dbg_dial.home import BROKER, CA, HOME, TOKEN, TOKEN_FILE

MARK = "\x01"
"""First character of a line of the rank; faulthandler only writes printable ASCII."""

BEAT = "beat"
CALM = "calm"
"""Words with which the rank's lines begin. ``beat``: the rank's interpreter runs. ``calm``: the process ends, and sends
no more beats. After the word, each line contains the kernel's id of the thread that sends beats, the rank's key and the
address of its broker."""

END = "end"
LEAVE = "leave"
CALL = "call"
"""More words with which the rank's lines begin. ``end``: the guard must end, and the rank waits for that. ``leave``:
the guard must stop being a child of the rank. ``call``: the broker has work for the guard."""

BEAT_SECONDS = 2.5
"""Seconds between two beats: each costs 10 µs and one wake-up, too little to be measured in training."""

STUCK_SECONDS = 6.0
"""Seconds without a beat after which the interpreter is treated as stuck. It is more than twice BEAT_SECONDS, because a
beat may be late, and because saving a checkpoint may hold the interpreter's lock for some seconds. It is less than the
10 s that a question may take: if the interpreter gets stuck when a question arrives, the guard can still answer it."""

REQUEST_SIGNAL = signal.SIGRTMIN + 8
"""Signal that makes the rank write its stacks: a real-time signal that no launcher, C library or debugger uses."""

PIPE_BYTES = 256 * 1024
"""Capacity of the pipe, in bytes. It holds a dump of 50 threads with deep stacks, in case that the guard gets no CPU to
read the dump. Writers never wait for space: what does not fit is lost."""

FIRST_DESCRIPTOR = 10
"""Lowest number that a descriptor of the pipe may have. Shell scripts redirect descriptors by number, but only those
with one digit, so these stay free."""

SHELL = "/bin/sh"

END_SECONDS = 1.0
"""Seconds that a rank waits for its guard to end or to detach. The guard needs milliseconds, unless it is reporting."""

WAIT_BY_NUMBER = frozenset({"multiprocessing.popen_fork", "multiprocessing.forkserver", "subprocess", "pty"})
"""Modules that fork and then wait only for the child that they have forked, so the guard may stay a child of the
rank."""

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "process.py")  # noqa: PTH100, PTH118, PTH120

PR_SET_PTRACER = 0x59616D61
"""Option of prctl() that allows one process, and all that it starts, to trace the caller."""

KEPT_VARIABLES = (BROKER, CA, TOKEN_FILE, TOKEN, HOME, "XDG_STATE_HOME", "HOME")
"""Environment variables from which the guard finds the broker and its token. The values at the guard's start are sent
through the pipe, because the program may change the variables at any time."""

LEFT_OUT_VARIABLES = (TOKEN, "LD_PRELOAD")
"""Environment variables that the guard's process doesn't inherit: the token, which other processes could read there,
and libraries to preload, such as profilers and allocators, which are meant for the rank only."""


_guard: Guard | None = None
_stopped: Guard | None = None
"""The guard that :func:`stop` has told to end. It may still be running for some time."""
_hooks_registered = False


def start(guard: Guard) -> None:
    """Start this guard for this process, unless it already has one. Raise OSError if that fails."""
    global _guard, _hooks_registered  # noqa: PLW0603 - one per process
    if _guard is not None:
        return
    if not _hooks_registered:
        _hooks_registered = True
        os.register_at_fork(before=_make_room, after_in_child=_forget)
    guard.start()
    _guard = guard


def stop() -> None:
    """Undo :func:`start`, except for settings of faulthandler that the program has replaced since then.

    The guard ends by itself.
    """
    global _guard, _stopped  # noqa: PLW0603 - one per process
    guard, _guard = _guard, None
    if guard is not None:
        _stopped = guard
        guard.stop()


def call() -> bool:
    """Make the guard dial the broker, which has work for the guard. Return False if there is no guard.

    Any thread may call it. It does not block.
    """
    return _guard is not None and _guard.call()


def allow_tracing() -> None:
    """Allow the guard and its children to trace this process until it ends, if the host has Yama.

    Any thread may call it. It never raises.
    """
    # A guard that has stopped being a child of this process has another process id, which is unknown here.
    if _guard is not None and _guard.child is not None and os.path.exists(YAMA_SCOPE):  # noqa: PTH110
        with suppress(Exception):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(_guard.child), 0, 0, 0)


def stop_heartbeat_check() -> None:
    """Make the guard expect no more beats, because the process ends. Fatal signals are still reported."""
    if _guard is not None:
        _guard.stop_heartbeat_check()


def end() -> None:
    """End the guard and wait up to a second for its end. This is the last action of a process that exits by itself.

    A guard that outlives its rank stays a zombie if process 1 doesn't reap children, as in many containers. A fatal
    signal after this call writes the stack to stderr.
    """
    global _guard, _stopped
    (guard, stopped), (_guard, _stopped) = (_guard, _stopped), (None, None)
    if guard is not None:
        guard.end()
    if stopped is not None:
        stopped.wait_for_end()


def _make_room() -> None:
    """Detach the guard before the program forks, because the program may then wait for any child or all children."""
    caller = sys._getframe().f_back
    name = caller.f_globals.get("__name__") if caller is not None else None
    if _guard is not None and name not in WAIT_BY_NUMBER:
        _guard.leave()


def _forget() -> None:
    global _guard, _stopped
    guard, _guard, _stopped = _guard, None, None
    if guard is not None:
        guard.forget()


class _PipeEnd:
    """The file object that faulthandler writes to, and to which only faulthandler holds a reference.

    If the program replaces the agent's settings of faulthandler, the object is deleted. A weak reference shows this.
    """

    __slots__ = ("__weakref__", "_descriptor")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the descriptor of the pipe's write end."""
        return self._descriptor

    def flush(self) -> None:
        """Do nothing, because nothing is buffered."""


_Held = weakref.ReferenceType[_PipeEnd]


class _Pipe:
    """The pipe to the guard. It is open from :meth:`open` to :meth:`close`."""

    def __init__(self) -> None:
        self.read, self.write = -1, -1
        self._identity: tuple[int, int] | None = None

    def open(self) -> None:
        """Open both ends. Raise OSError if that fails."""
        read, write = os.pipe()
        self._identity = _identity(read)
        try:
            self.read = fcntl.fcntl(read, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR)
            self.write = fcntl.fcntl(write, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR)
        finally:
            os.close(read)
            os.close(write)
        # The rank keeps the read end, because without a reader the next write would cause a SIGPIPE, perhaps fatal.
        os.set_blocking(self.write, False)
        with suppress(OSError):
            fcntl.fcntl(self.write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def is_ours(self) -> bool:
        """Return True if the pipe is open and the program has not closed it."""
        return self.write >= 0 and _identity(self.write) == self._identity

    def close(self) -> None:
        """Close both ends, unless the program has closed them and perhaps reused their numbers for its own files."""
        ends = self.read, self.write
        self.forget()
        for end in ends:
            if end >= 0 and _identity(end) == self._identity:
                os.close(end)

    def forget(self) -> None:
        """Forget the descriptors without closing them."""
        self.read = self.write = -1


def _identity(descriptor: int) -> tuple[int, int] | None:
    """Return the device and inode of an open file, or None if the descriptor is not open."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Guard:
    """The guard of this process, from :meth:`start` to :meth:`stop`. Both methods are called once, from any thread.

    ``key`` returns the rank's key at the broker, and ``owner`` the address of its broker if there are several brokers.
    ``broker`` is the configured address, ``registration`` the rank's frame for registration, and ``rank`` its global
    number. Without ``may_exec`` the guard starts no program.
    """

    def __init__(
        self,
        key: Callable[[], str],
        broker: str | None,
        registration: str,
        *,
        owner: Callable[[], str],
        rank: int,
        may_exec: bool,
    ) -> None:
        self._key, self._owner = key, owner
        self._about = {"broker": broker, "exec": may_exec, "rank": rank, "registration": registration}
        self._has_ended = False
        # The lock is reentrant, because a signal handler of the program may call a method of this object in a thread
        # that already holds the lock.
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._pipe = _Pipe()
        self._thread: int | None = None
        self._is_calm = False
        self.child: int | None = None
        self._no_child = threading.Event()
        self._fatal: _Held | None = None
        self._request: _Held | None = None
        self.pid = os.getpid()

    # ------------------------------------------------------------------------------------------------- any thread

    def start(self) -> None:
        """Start the guard and make faulthandler write to it. Raise OSError if that fails."""
        with self._lock:
            try:
                self._pipe.open()
                self._write_about_rank()
                self.child = _start_process(self._pipe.read)
                own_thread(partial(self._reap, self.child), "dbg-agent-reaper").start()
                thread = own_thread(self._run, "dbg-agent-guard")
                thread.start()
                self._thread = thread.native_id
                # The first beat is sent here, because the new thread may never run: the program may hold the GIL from
                # now on.
                self._send_word(BEAT)
            except BaseException:
                self._pipe.close()
                raise
            self._enable()

    def stop(self) -> None:
        """Undo :meth:`start`, except for settings of faulthandler that the program has replaced since then.

        The guard ends by itself.
        """
        with self._lock:
            self._send_word(END)
            self._let_go()

    def end(self) -> None:
        """Call :meth:`stop`, wait until the guard has ended, and report later fatal signals to stderr."""
        had_fatal = _is_held(self._fatal)
        self.stop()
        self.wait_for_end()
        if had_fatal:
            # stderr may be closed, or may not be a file.
            with suppress(Exception):
                faulthandler.enable(all_threads=True)

    def wait_for_end(self) -> None:
        """Wait up to a second until the guard has ended."""
        self._no_child.wait(END_SECONDS)

    def leave(self) -> None:
        """Make the guard stop being a child of this process. The guard continues."""
        if self.child is not None:
            self.child = None
            with self._lock:
                self._send_word(LEAVE)
            self._no_child.wait(END_SECONDS)

    def _let_go(self) -> None:
        with self._lock:
            if _is_held(self._fatal):
                faulthandler.disable()
            if _is_held(self._request):
                faulthandler.unregister(REQUEST_SIGNAL)
            self._fatal = self._request = None
            self._pipe.close()
            self._stopping.set()

    def stop_heartbeat_check(self) -> None:
        """Make the guard expect no more beats."""
        with self._lock:
            self._is_calm = True
            self._send_word(CALM)
            self._stopping.set()

    def call(self) -> bool:
        """Make the guard dial the broker. Return False if the guard has ended or the program has closed the pipe."""
        with self._lock:
            return not self._has_ended and self._send_word(CALL)

    def forget(self) -> None:
        """Detach from the parent's guard, in a forked child."""
        # The lock and the event are replaced: at the fork, another thread of the parent may have held the lock, or the
        # event's own lock. That thread does not exist in the child and can't release it.
        self._lock, self._stopping = threading.RLock(), threading.Event()
        self.child = None
        self._let_go()

    # ---------------------------------------------------------------------------------------------- threads of its own

    def _reap(self, child: int) -> None:
        # The program may have waited for this child already.
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
        # To leave its parent, the guard continues in a process that it forks, and the rank's child ends. The end of the
        # child does not count as the end of the guard, because `leave` has set `child` to None.
        self._has_ended = self.child is not None
        self.child = None
        self._no_child.set()

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() - {REQUEST_SIGNAL})
        self._thread = threading.get_native_id()
        while self._beat():
            self._stopping.wait(BEAT_SECONDS)

    def _beat(self) -> bool:
        """Send a beat to the guard. Return True if more beats must follow."""
        with self._lock:
            if self._is_calm or self._pipe.write < 0:
                return False
            if not self._pipe.is_ours():
                # The program has closed all descriptors, as daemons do, and may have reused their numbers. So they must
                # not be closed here.
                self._pipe.forget()
                self._let_go()
                return False
            self._send_word(BEAT)
            return True

    # -------------------------------------------------------------------------------------------------------- inner

    def _enable(self) -> None:
        if not faulthandler.is_enabled():
            end = _PipeEnd(self._pipe.write)
            self._fatal = weakref.ref(end)
            faulthandler.enable(file=end, all_threads=True)
        if signal.getsignal(REQUEST_SIGNAL) is signal.SIG_DFL:
            end = _PipeEnd(self._pipe.write)
            self._request = weakref.ref(end)
            faulthandler.register(REQUEST_SIGNAL, file=end, all_threads=True, chain=False)

    def _write_about_rank(self) -> None:
        # If the program handles this signal itself, its handler runs instead of faulthandler's.
        may_ask = signal.getsignal(REQUEST_SIGNAL) is signal.SIG_DFL
        environ = {**os.environ, **broker_overrides}
        about = {
            **self._about,
            "key": self._key(),
            "main": threading.main_thread().ident,
            "signal": REQUEST_SIGNAL if may_ask else 0,
            "stuck": STUCK_SECONDS,
            "environ": {name: environ[name] for name in KEPT_VARIABLES if name in environ},
            "path": [os.path.abspath(folder) for folder in sys.path if isinstance(folder, str)],  # noqa: PTH100
        }
        line = f"{self.pid} {STUCK_SECONDS} {json.dumps(about)}\n".encode()
        if os.write(self._pipe.write, line) != len(line):
            raise OSError("the data for the guard doesn't fit into its pipe")

    def _send_word(self, word: str) -> bool:
        """Write a line to the guard. Return True if it was written."""
        if not self._pipe.is_ours():
            return False
        line = f"{MARK}{word} {self._thread or 0} {self._key()} {self._owner()}\n"
        # The line is shorter than PIPE_BUF, so it is written completely or, if the pipe is full, not at all.
        with suppress(OSError):
            return os.write(self._pipe.write, line.encode("ascii", "replace")) > 0
        return False


def _is_held(end: _Held | None) -> bool:
    return end is not None and end() is not None


def _start_process(read: int) -> int:
    """Start the guard and return its process id. Raise OSError if that fails.

    A shell is started, which then executes the interpreter. If the interpreter is on a file system that does not
    answer, only the shell is blocked, and not the rank.
    """
    python = sys.executable
    # If the check takes too long, because the file system does not answer, the interpreter is treated as present.
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
