"""The numbers of Linux's system calls, by kind of machine: those in which programs wait. Pure.

Source: the kernel's ``syscall_64.tbl`` and ``asm-generic/unistd.h``.
"""

from __future__ import annotations

_TABLE = """
read 0 63|write 1 64|open 2 -|stat 4 -|fstat 5 80|lstat 6 -|poll 7 -|lseek 8 62|ioctl 16 29|pread64 17 67|pwrite64 18 68
readv 19 65|writev 20 66|access 21 -|select 23 -|sched_yield 24 124|msync 26 227|pause 34 -|nanosleep 35 101
sendfile 40 71|connect 42 203|accept 43 202|sendto 44 206|recvfrom 45 207|sendmsg 46 211|recvmsg 47 212|wait4 61 260
semop 65 193|msgrcv 70 188|fcntl 72 25|flock 73 32|fsync 74 82|fdatasync 75 83|truncate 76 45|ftruncate 77 46
getdents 78 -|chdir 80 49|rename 82 -|mkdir 83 -|rmdir 84 -|unlink 87 -|readlink 89 -|rt_sigtimedwait 128 137
rt_sigsuspend 130 133|statfs 137 43|futex 202 98|io_getevents 208 4|getdents64 217 61|restart_syscall 219 128
clock_nanosleep 230 115|epoll_wait 232 -|waitid 247 95|openat 257 56|mkdirat 258 34|newfstatat 262 79|unlinkat 263 35
renameat 264 38|readlinkat 267 78|faccessat 269 48|pselect6 270 72|ppoll 271 73|splice 275 76|sync_file_range 277 84
epoll_pwait 281 22|fallocate 285 47|accept4 288 242|preadv 295 69|pwritev 296 70|recvmmsg 299 243|renameat2 316 276
copy_file_range 326 285|statx 332 291|io_uring_enter 426 426|openat2 437 437|faccessat2 439 439|epoll_pwait2 441 441
futex_waitv 449 449|futex_wait 455 455
"""
"""Names with their numbers on x86_64 and on aarch64; a dash where a machine has no such call."""

_COLUMNS = {"x86_64": 1, "aarch64": 2}


def call_names(machine: str) -> dict[int, str]:
    """Return the names of calls by their numbers on a kind of machine; nothing for a kind that is not known."""
    column = _COLUMNS.get(machine)
    rows = (row.split() for row in _TABLE.strip().replace("\n", "|").split("|"))
    return {int(row[column]): row[0] for row in rows if row[column] != "-"} if column is not None else {}
