"""Whether a process is alive, where this host's kernel can tell.

A rank names its kernel's boot and its process-id namespace; only where both are ours does its pid mean anything here.
"""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def own_kernel(proc: Path = _PROC) -> str | None:
    """Return this process's kernel boot and process-id namespace as ranks state theirs, or None if unreadable."""
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{(proc / 'self/ns/pid').stat().st_ino}"
    except (OSError, UnicodeDecodeError):
        return None


def is_dead(pid: int, proc: Path = _PROC) -> bool:
    """Tell whether no process has this id any more, or only its exit status is left of it."""
    try:
        status = (proc / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    # The name in parentheses may hold anything, parentheses too; the state is the first word after it.
    return status.rpartition(b")")[2].split()[:1] in ([b"Z"], [b"X"], [b"x"])
