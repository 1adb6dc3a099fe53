"""A link whose broker falls silent or whose name server hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.support.time_unit import seconds

HANGS = """\
import socket, sys, threading
really = socket.getaddrinfo
def hanging(host, *arguments, **options):
    if host == "login1" and not options.get("flags"):
        threading.Event().wait()
    return really(host, *arguments, **options)
socket.getaddrinfo = hanging
from dbg_client.cli.main import main
sys.argv[0] = "dbg-attach"
sys.exit(main())
"""


def test_a_name_server_that_hangs_does_not_outlast_the_timeout(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "DBG_HOME": str(tmp_path),
        "DBG_BROKER": "login1:6900#sha256:" + "0" * 64,
        "DBG_TOKEN": "t" * 43,
    }
    begun = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-c", HANGS, "list", "--timeout", "1"],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(30),
    )
    assert (result.returncode, result.stdout) == (4, "")
    assert "no answer within 1 s" in result.stderr
    assert time.monotonic() - begun < seconds(10)
