"""Yama, by which Linux may let a process be traced by nobody but its ancestors and those that it names."""

from __future__ import annotations

import os
from contextlib import suppress

SCOPE = "/proc/sys/kernel/yama/ptrace_scope"

PR_SET_PTRACER = 0x59616D61
"""The number of the call by which a process names who may trace it: that process, and all that it starts."""


def allow(tracer: int, scope: str = SCOPE) -> bool:
    """Let a process and its children trace this one until it ends, and tell whether the kernel took that.

    Nothing is done in a kernel without Yama. Any thread; never raises.
    """
    if not os.path.exists(scope):  # noqa: PTH110
        return False
    with suppress(Exception):
        import ctypes

        return ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(tracer), 0, 0, 0) == 0  # type: ignore[no-any-return]
    return False
