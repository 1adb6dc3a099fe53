"""A fork finds the link's thread at rest, and neither hangs the program nor waits long."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.unit.agent.link.test_fork_safety import LONG

FORK_WHILE_DIALLING = """\
import os, sys, threading, time
import dbg_agent, dbg_agent.link.dialling, dbg_dial.dial

inside, forking = threading.Event(), threading.Event()
lock = threading.Lock()
def context(endpoint):
    # As OpenSSL: takes a lock of its own, Python's being free meanwhile.
    with lock:
        inside.set()
        forking.wait()
        time.sleep(0.1)
    raise OSError
dbg_dial.dial.client_context = context
dbg_agent.install(guard=False)
# Of two hooks the later one goes first.
os.register_at_fork(before=forking.set)
inside.wait()
child = os.fork()
if child == 0:
    os._exit(0 if lock.acquire(timeout=0) else 7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_forked_while_its_parent_dials_has_the_locks_of_that_for_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK_WHILE_DIALLING]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = f"127.0.0.1:{listener.getsockname()[1]}#sha256:" + "0" * 64
        environ = {**os.environ, "DBG_HOME": str(tmp_path), "DBG_BROKER": broker, "DBG_TOKEN": "t" * 43}
        result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LONG, check=False)
    assert (result.returncode, result.stderr) == (0, "")
