"""Numbers of system calls are those of this machine's kernel."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

from dbg_wire.tables.system_calls import call_names


def test_a_process_that_waits_is_in_the_call_of_this_name() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        descriptor = os.pidfd_open(child.pid)
        calls = Path(f"/proc/{child.pid}/syscall")
        while (said := calls.read_text().split()[0]) == "running":
            assert not select.select([descriptor], [], [], 0)[0]
        os.close(descriptor)
        assert call_names(os.uname().machine)[int(said)] == "read"
        child.kill()
