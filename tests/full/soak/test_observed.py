"""A process tells what it holds, and what is left over shows."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

from tests.full.soak.observed import ask, numbers, observe


def test_what_is_left_over_is_counted() -> None:
    loop = asyncio.new_event_loop()
    before = numbers()
    task = loop.create_task(asyncio.Event().wait())
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    end, other_end = os.pipe()
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    after = numbers()
    for what, more in {"tasks": 1, "threads": 1, "descriptors": 2, "zombies": 1}.items():
        assert after[what] - before[what] == more, what
    os.waitpid(pid, 0)
    os.close(end)
    os.close(other_end)
    leave.set()
    thread.join()
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()


def test_it_is_told_over_a_socket(tmp_path: Path) -> None:
    observe(str(tmp_path / "socket"))
    told = ask(tmp_path / "socket")
    assert told["memory"] > 1000
    assert told["threads"] >= 2
