"""What the kernel tells of this process, and what is told where it tells nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("begin", ["", "if os.fork(): raise SystemExit(os.wait()[1])"])
def test_the_main_threads_system_call_is_told(begin: str) -> None:
    program = f"""\
import os, signal, threading
{begin}
signal.alarm(60)
from dbg_agent.evidence.process import process_seen

def look():
    while True:
        seen = process_seen()
        if (seen.system_call, seen.state) == ("wait4", "S"):
            break
    print(seen.state, flush=True)
    os.kill(child, 9)

child = os.posix_spawn("/bin/sleep", ["sleep", "3600"], os.environ)
threading.Thread(target=look).start()
os.waitpid(child, 0)
"""
    # A forked rank keeps the number that its main thread had in its parent.
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True, text=True)
    assert ran.stdout == "S\n"
