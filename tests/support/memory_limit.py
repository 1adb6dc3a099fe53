"""A control group of the kernel with a memory limit, in which a test starts what the kernel shall kill."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.broker import Wrap

FIRST_VERSION = Path("/sys/fs/cgroup/memory")
SECOND_VERSION = Path("/sys/fs/cgroup")
ENTER = 'echo $$ > "$1" && shift && exec "$@"'
"""A shell that moves into a control group before it becomes the command."""


@contextmanager
def limited_memory(size: int | None) -> Iterator[Wrap | None]:
    """Yield what wraps a command such that all its processes share ``size`` bytes; None if that is not allowed here.

    Without a size a command stays as it is.

    The processes must have ended before the control group goes.
    """
    if size is None:
        yield list
        return
    folder = _made(size)
    if folder is None:
        yield None
        return

    def wrap(command: Sequence[str]) -> list[str]:
        return ["sh", "-c", ENTER, "sh", str(folder / "cgroup.procs"), *command]

    try:
        yield wrap
    finally:
        with suppress(OSError):
            folder.rmdir()


def _made(size: int) -> Path | None:
    is_first = FIRST_VERSION.is_dir()
    parent, limit = (FIRST_VERSION, "memory.limit_in_bytes") if is_first else (SECOND_VERSION, "memory.max")
    folder = parent / f"dbg-test-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
        (folder / limit).write_text(str(size))
        if not is_first:
            (folder / "memory.swap.max").write_text("0")
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        return None
    return folder
