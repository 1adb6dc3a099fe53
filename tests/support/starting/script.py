"""An interpreter that has started with a placeholder gets another script, and ``/proc`` shows what it would of a start.

Between the imports of ``site`` and the run of its script an interpreter keeps the script's name in its ``PyConfig``.
There it is written over, as Python code can't run a script with no frame below.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

PLACEHOLDER = "/" + 1000 * "_"
"""The script with which an interpreter starts that is to run others; as long as any of them."""

SOUGHT = PLACEHOLDER.encode("utf-32-le")
"""The placeholder as wide characters of C."""

PR_SET_MM, PR_SET_MM_MAP, PR_SET_MM_MAP_SIZE = 35, 14, 15
"""Requests to the kernel, as in ``linux/prctl.h``: the places of a process's memory, and the record's size."""

PLACES = (25, 26, 44, 45, 46, None, 27)
"""Fields of ``/proc/self/stat`` that tell the first places: code, data, heap, stack. The end of the heap is missing."""


def may_become_script() -> bool:
    """Tell whether the kernel lets a process say where its command line is; not all are built so."""
    return bool(ctypes.CDLL(None).prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, ctypes.byref(ctypes.c_uint()), 0, 0) == 0)


def become_script(environment: Mapping[str, str]) -> None:
    """Let this starting interpreter run the script of ``sys.argv``; it has been given that and the environment."""
    sys.orig_argv = [sys.executable, *sys.argv]
    replace_script(sys.argv[0])
    show("".join(f"{word}\0" for word in sys.orig_argv), "".join(f"{n}={v}\0" for n, v in environment.items()))


def replace_script(path: str) -> None:
    """Write a path over the placeholder: as the script's name, and as the first argument, which is as it was typed."""
    get_config = ctypes.pythonapi._Py_GetConfig
    get_config.restype = ctypes.c_void_p
    # A PyConfig has pointers to strings, and to lists of pointers to strings.
    pointers = words_at(get_config(), 100)
    listed = [place for pointer in pointers for place in words_at(pointer, 3)]
    # As a starting interpreter does it, which leaves dots as they are.
    absolute = path if path.startswith("/") else f"{Path.cwd()}/{path}"
    for places, text in ((pointers, absolute), (listed, path)):
        written = f"{text}\0".encode("utf-32-le")
        found = {place for place in places if read(place, len(SOUGHT)) == SOUGHT}
        if not found or len(written) > len(SOUGHT):
            raise ValueError(f"{text} can't take the place of a script that is named in {len(found)} places")
        for place in found:
            ctypes.memmove(place, written, len(written))


def words_at(address: int, count: int) -> tuple[int, ...]:
    """Return the words at an address; none if there is no memory."""
    data = read(address, count * 8)
    return struct.unpack(f"{count}Q", data) if len(data) == count * 8 else ()


def read(address: int, count: int) -> bytes:
    """Return the bytes at an address; none if there is no memory."""
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        try:
            return os.pread(memory.fileno(), count, address)
        except (OSError, OverflowError):
            return b""


_shown = b""
"""The memory in which the kernel finds command line and environment."""


def show(words: str, variables: str) -> None:
    """Have ``/proc`` show a command line and an environment, both with a NUL after each entry."""
    global _shown
    first, second = os.fsencode(words), os.fsencode(variables)
    _shown = first + second
    start = ctypes.cast(ctypes.c_char_p(_shown), ctypes.c_void_p).value or 0
    between, end = start + len(first), start + len(_shown)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    known = [0 if place is None else int(fields[place - 2]) for place in PLACES]
    # struct prctl_mm_map: the places, no other auxiliary vector, and no other executable.
    told = (ctypes.c_uint64 * 13)(*known, start, between, between, end, 0, 0xFFFFFFFF << 32)
    c = ctypes.CDLL(None, use_errno=True)
    c.sbrk.restype = ctypes.c_void_p
    # Last, since the heap may grow until now.
    told[5] = c.sbrk(0)
    if c.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(told), ctypes.c_size_t(ctypes.sizeof(told)), 0):
        raise OSError(ctypes.get_errno(), "the kernel refuses another command line")
