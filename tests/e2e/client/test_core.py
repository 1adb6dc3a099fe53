"""What an error offers to type is right where the error comes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dbg_wire.messages import Greet, Message, Question, Refusal, RefusalCode
from tests.e2e.client.test_cli import command
from tests.support.processes import run_command
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import FakeBroker, make_rank

HANGS = """\
import socket, sys, threading
really = socket.getaddrinfo
def hanging(host, *arguments, **options):
    if host == "login1" and not options.get("flags"):
        threading.Event().wait()
    return really(host, *arguments, **options)
socket.getaddrinfo = hanging
from dbg_client.command_line.main import main
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
    assert "no name server answers" in result.stderr
    assert time.monotonic() - begun < seconds(10)


@pytest.mark.parametrize("kind", [Greet, Question])
def test_a_refusal_is_one_line_of_a_command(kind: type[Message], environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker:
        broker.refusals[kind] = Refusal(code=RefusalCode.FULL, text="the moon\x1b[2J is full")
        asked = run_command(command("eval", "all", "loss"), {**environ, **broker.environment}, seconds(60))
    assert (asked.returncode, asked.stdout) == (5, "")
    assert asked.stderr.count("\n") == 1
    assert r"the moon\x1b[2J is full" in asked.stderr
