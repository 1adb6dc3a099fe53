"""Atomic write of a file: beside it under another name, then renamed, so that readers see the old text or the new.

A file that is gone in a moment, and is not to be on a disk, has a directory in this host's memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def write_whole(path: Path, text: str | bytes, *, mode: int = 0o600, lasting: bool = False) -> None:
    """Make a file, or replace it as a whole; the umask plays no part. Raise OSError, with nothing left behind.

    With ``lasting`` it is on the disk when this returns: a crash of the host could leave the new name with nothing in
    it otherwise.
    """
    beside = path.with_name(f".{path.name[:100]}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(text.encode() if isinstance(text, str) else text)
            if lasting:
                file.flush()
                os.fsync(descriptor)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def directory_in_memory(environ: Mapping[str, str]) -> Path:
    """Return a new directory that only this user can enter, in this host's memory if it has one. Raise OSError."""
    import tempfile  # a shell that completes a word waits for this module

    places = (environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm")  # noqa: S108 - a directory of one's own is made there
    place = next((path for path in places if os.path.isabs(path) and os.access(path, os.W_OK | os.X_OK)), None)  # noqa: PTH117
    return Path(tempfile.mkdtemp(prefix="dbg-", dir=place))
