"""A rank that crashes while the network swallows all its data ends soon, with its own traceback and status."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.support.time_unit import seconds

SCRIPT = """\
import dbg_agent
dbg_agent.install(post_mortem=True)
raise RuntimeError("boom")
"""


def test_crash_that_nobody_can_hear_of_ends_at_once(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        # The full queue of the listener drops every dial, like a network that swallows everything.
        with socket.create_connection(address):
            environ = {
                **{name: value for name, value in os.environ.items() if name != "CI"},
                "DBG_HOME": str(tmp_path),
                "DBG_BROKER": f"127.0.0.1:{address[1]}#sha256:" + "0" * 64,
                "DBG_TOKEN": "t" * 43,
            }
            begun = time.monotonic()
            result = subprocess.run(
                [sys.executable, str(script)],
                env=environ,
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds(30),
            )
    assert time.monotonic() - begun < seconds(8)
    assert result.returncode == 1
    assert "RuntimeError: boom" in result.stderr
    assert "going on without a debugger" in result.stderr
