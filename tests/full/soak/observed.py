"""What a process holds: told over a socket from a thread of its own, so that the program need not take part.

``python -m tests.full.soak.observed SOCKET MODULE ARGUMENT…`` calls the ``main`` of a module, observed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

LARGEST = 4096


def observe(path: str) -> None:
    """Answer each connection to a socket at ``path`` with the numbers of this process, for as long as it lives."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    threading.Thread(target=_answer_all, args=(server,), name="observed", daemon=True).start()


def _answer_all(server: socket.socket) -> None:
    while True:
        asked, _ = server.accept()
        with asked:
            asked.sendall(json.dumps(numbers()).encode())


def numbers() -> dict[str, int]:
    """Count what a leak would leave: unfinished tasks, threads, descriptors, children that nobody waits for, objects.

    ``memory`` is in KiB.
    """
    gc.collect()
    objects = gc.get_objects()
    return {
        "memory": _memory(),
        "objects": len(objects),
        "tasks": sum(issubclass(type(one), asyncio.Task) and not one.done() for one in objects),
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names alone
        "zombies": _zombies(),
    }


def _memory() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def _zombies() -> int:
    children = [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
    return sum(_is_zombie(pid) for pid in children)


def _is_zombie(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return False


def ask(path: Path) -> Mapping[str, int]:
    """Return the numbers of the process that is observed at this socket."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(60)
        asking.connect(str(path))
        told = b""
        while part := asking.recv(LARGEST):
            told += part
    found: dict[str, int] = json.loads(told)
    return found


if __name__ == "__main__":
    observe(sys.argv[1])
    module = sys.argv[2]
    sys.argv = [module, *sys.argv[3:]]
    sys.exit(import_module(module).main())
