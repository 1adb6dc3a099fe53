"""The system calls in which a thread may be borrowed. Pure.

A thread that waits in one of these is not in the midst of taking or freeing memory, nor of loading a library: other
calls can be made in it, and it waits on afterwards. Calls that change the process's memory are not among them.
"""

from __future__ import annotations

_X86_64 = {
    "read": 0, "poll": 7, "select": 23, "sched_yield": 24, "pause": 34, "nanosleep": 35, "accept": 43, "recvfrom": 45,
    "recvmsg": 47, "wait4": 61, "semop": 65, "msgrcv": 70, "fcntl": 72, "flock": 73, "rt_sigtimedwait": 128,
    "rt_sigsuspend": 130, "futex": 202, "io_getevents": 208, "restart_syscall": 219, "clock_nanosleep": 230,
    "epoll_wait": 232, "waitid": 247, "pselect6": 270, "ppoll": 271, "epoll_pwait": 281, "accept4": 288,
    "recvmmsg": 299, "epoll_pwait2": 441, "futex_waitv": 449,
}  # fmt: skip

_AARCH64 = {
    "io_getevents": 4, "epoll_pwait": 22, "fcntl": 25, "flock": 32, "read": 63, "pselect6": 72, "ppoll": 73,
    "waitid": 95, "futex": 98, "nanosleep": 101, "clock_nanosleep": 115, "sched_yield": 124, "restart_syscall": 128,
    "rt_sigsuspend": 133, "rt_sigtimedwait": 137, "msgrcv": 188, "semop": 193, "accept": 202, "recvfrom": 207,
    "recvmsg": 212, "accept4": 242, "recvmmsg": 243, "wait4": 260, "epoll_pwait2": 441, "futex_waitv": 449,
}  # fmt: skip

WAITING = {
    "x86_64": frozenset(_X86_64.values()),
    "aarch64": frozenset(_AARCH64.values()),
}
"""The numbers of the calls by the kind of machine."""


def waits_safely(machine: str, number: int | None) -> bool:
    """Tell whether a thread in the system call of this number may be borrowed; None is a thread in its own code."""
    return number is not None and number in WAITING.get(machine, frozenset())
