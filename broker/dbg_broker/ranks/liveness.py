"""Whether a process is alive, where this host's kernel can tell.

A rank's pid means something here only if the rank names the same kernel as :func:`dbg_dial.kernel.kernel_name` here.
"""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def is_dead(pid: int, proc: Path = _PROC) -> bool:
    """Tell whether no process has this id any more, or only its exit status is left of it."""
    try:
        status = (proc / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        # A /proc with hidepid, as systemd's ProtectProc= mounts it, has no processes of other users.
        return not _is_there(pid)
    except OSError:
        return False
    # The name in parentheses may hold anything, parentheses too; the state is the first word after it.
    return status.rpartition(b")")[2].split()[:1] in ([b"Z"], [b"X"], [b"x"])


def _is_there(pid: int) -> bool:
    """Tell whether a process has this id, which signal 0 finds out without being one."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
