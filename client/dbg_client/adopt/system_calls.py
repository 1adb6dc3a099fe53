"""The system calls in which a thread may be borrowed. Pure.

A thread that waits in one of these is not in the midst of taking or freeing memory, nor of loading a library: other
calls can be made in it, and it waits on afterwards. Calls that change the process's memory are not among them.
"""

from __future__ import annotations

from dbg_wire.tables.system_calls import call_names

WAITING = frozenset(
    {
        *("read", "poll", "select", "sched_yield", "pause", "nanosleep", "accept", "recvfrom", "recvmsg", "wait4"),
        *("semop", "msgrcv", "fcntl", "flock", "rt_sigtimedwait", "rt_sigsuspend", "futex", "io_getevents"),
        *("restart_syscall", "clock_nanosleep", "epoll_wait", "waitid", "pselect6", "ppoll", "epoll_pwait", "accept4"),
        *("recvmmsg", "epoll_pwait2", "futex_waitv"),
    }
)


def waits_safely(machine: str, number: int | None) -> bool:
    """Tell whether a thread in the system call of this number may be borrowed; None is a thread in its own code."""
    return number is not None and call_names(machine).get(number) in WAITING


def is_tried(machine: str) -> bool:
    """Tell whether the calls of this kind of machine are known, without which no thread is borrowed."""
    return bool(call_names(machine))
