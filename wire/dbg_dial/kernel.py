"""The name of this host's kernel, by which a broker knows whether it can see a rank's process."""

from __future__ import annotations

import os


def kernel_name(proc: str = "/proc") -> str | None:
    """Return a name for this boot and process-id namespace, or None if that can't be read.

    A process id from another process is valid here only if both processes have the same kernel name.
    """
    try:
        with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - no pathlib in a rank
            boot = file.read().strip()
        return f"{boot}/{os.stat(f'{proc}/self/ns/pid').st_ino}"  # noqa: PTH116
    except (OSError, UnicodeDecodeError):
        return None
