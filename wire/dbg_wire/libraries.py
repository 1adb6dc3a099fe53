"""Facts about libraries and the kernel: the names of collective functions, and system call numbers. Pure.

Operations that are not Python functions, such as most operations of mpi4py, don't appear on a Python stack. The system
call numbers come from the kernel's ``syscall_64.tbl`` and ``asm-generic/unistd.h``.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbg_wire.records.ranks import Place

_MODULES = (
    "/torch/distributed/distributed_c10d.py",
    "/torch/distributed/_functional_collectives.py",
    "/torch/distributed/nn/functional.py",
    "/deepspeed/comm/comm.py",
    "/deepspeed/comm/torch.py",
    "/horovod/torch/mpi_ops.py",
    "/horovod/torch/functions.py",
    "/mpi4py/util/pkl5.py",
)
"""Path suffixes of the modules that define the collective functions below."""

_TORCH = frozenset(
    {
        *("all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_tensor"),
        *("all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "broadcast"),
        *("broadcast_object_list", "gather", "gather_object", "init_process_group", "monitored_barrier", "new_group"),
        *("reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list", "wait_tensor"),
        *("all_gather_single", "reduce_scatter_single", "all_gather_into_tensor_coalesced"),
        *("all_gather_single_coalesced", "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced"),
        *("recv", "send", "recv_object_list", "send_object_list", "batch_isend_irecv"),
    }
)
"""Functions of torch. DeepSpeed has most of them under the same names."""

_HOROVOD = frozenset(
    {
        *("allgather", "allgather_object", "allreduce", "alltoall", "barrier", "broadcast_object", "grouped_allreduce"),
        *("broadcast_parameters", "broadcast_optimizer_state", "join", "reducescatter", "synchronize"),
    }
)

_MPI = frozenset({"bcast", "gather", "scatter", "allgather", "alltoall", "send", "recv", "sendrecv", "ssend"})

_NAMES = _TORCH | _HOROVOD | _MPI

SYNCHRONOUS = frozenset(
    {
        *("all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_into_tensor_coalesced"),
        *("all_gather_single", "all_gather_single_coalesced", "all_reduce", "all_reduce_coalesced", "all_to_all"),
        *("all_to_all_single", "barrier", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor"),
        *("reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced", "allgather_into_tensor_coalesced"),
    }
)
"""Names, as in records, of some collectives: each rank waits until all ranks have called the collective. In other
collectives only some ranks wait."""

_RAY_TRAIN = ("/ray/train/v2/api/train_fn_utils.py", "/ray/train/_internal/session.py")
"""Path suffixes of the modules with a function ``report`` that waits for all workers."""


def collective_of(frames: Sequence[Place]) -> str:
    """Return the name of the outermost collective function on a stack, or "". The outermost frame comes first."""
    return next(filter(None, map(_collective, frames)), "")


def _collective(place: Place) -> str:
    # A package may be installed in any folder, but the paths below the package's folder stay the same.
    if place.function in _NAMES and place.file.endswith(_MODULES):
        return place.function
    return "train.report" if place.function == "report" and place.file.endswith(_RAY_TRAIN) else ""


# -------------------------------------------------------------------------------------------------- system calls

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
"""System call names with their numbers on x86_64 and aarch64; a dash means that the machine does not have the call."""

_COLUMNS = {"x86_64": 1, "aarch64": 2}


def call_names(machine: str) -> dict[int, str]:
    """Map system call numbers to names for a machine type; empty for an unknown type."""
    column = _COLUMNS.get(machine)
    rows = (row.split() for row in _TABLE.strip().replace("\n", "|").split("|"))
    return {int(row[column]): row[0] for row in rows if row[column] != "-"} if column is not None else {}
