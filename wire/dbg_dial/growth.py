"""Files that grow, as their kernel tells of them."""

from __future__ import annotations

import ctypes
import os

_IN_MODIFY, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x80, 0x100  # /usr/include/linux/inotify.h


def watch_growth(path: str) -> int | None:
    """Return a descriptor that is readable whenever a file has grown; None where the kernel has no such watch.

    For a directory it is readable whenever a file in it has grown, was made, or has got its name.
    """
    try:
        library = ctypes.CDLL(None, use_errno=True)
        descriptor: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None
    if descriptor < 0:
        return None
    if library.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE) < 0:
        os.close(descriptor)
        return None
    return descriptor
