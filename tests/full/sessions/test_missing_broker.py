"""Training goes on without a working broker: a rank prints one line, and waits only once."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.smoke.test_missing_broker import PASSES, WAIT_SECONDS, one_line
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_list, start_ranks, wait_until, wait_until_stopped
from tests.support.reach import PIN
from tests.support.time_unit import seconds


@pytest.mark.parametrize(("broker", "wait"), [("", WAIT_SECONDS), (f"login1:6900#{PIN}", 3 * WAIT_SECONDS)])
def test_a_file_that_never_opens_delays_neither_stop_nor_fork_nor_end(
    processes: Processes, home: Path, broker: str, wait: float
) -> None:
    script = f"""\
import logging, os, sys, threading
from dbg_dial import find
find._open_without_waiting = lambda *_: threading.Event().wait()
{PASSES}
sys.stdout.flush()
child = os.fork()
if child == 0:
    set_trace()
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    file = "token" if broker else "broker.json"
    variables = {"DBG_BROKER": broker, "DBG_TOKEN_FILE": str(home / "token"), "DBG_CONNECT_TIMEOUT": str(wait)}
    (rank,) = start_ranks(processes, home, script, 1, env={**variables, "PYTHONWARNINGS": "ignore"})
    assert rank.wait(seconds(35)) == 0
    assert re.search(r"^waited in \[0\]\nafter\n3\n", rank.text(), re.MULTILINE), rank.text()
    assert f"{home / file}" in one_line(rank)


ASKED = """\
import os
with open(os.environ["GATE"]):
    pass
total = 1
with open(os.environ["GATE"]):
    pass
breakpoint()
"""
"""A program that waits before its fourth line, at which somebody has asked it to stop, and behind that line."""


def test_a_passed_stop_is_reported_once_a_broker_runs(processes: Processes, home: Path) -> None:
    gate = home / "gate"
    broker = running_broker(processes, home)
    broker.kill()
    os.mkfifo(gate)
    stop = f"{home / 'asked_script.py'}:4"
    environ = {"DBG_AUTOSTART": "1", "DBG_STOP_AT": stop, "GATE": str(gate), "DBG_CONNECT_TIMEOUT": "1"}
    (rank,) = start_ranks(processes, home, ASKED, 1, env=environ, name="asked")
    gate.write_bytes(b"")
    rank.wait_for_output("dbg-agent: ", stream="stderr")
    broker.restart()
    wait_until(home, bool, "the rank")
    assert attach_list(home)[0]["passed"]
    for verb in ("list", "why"):
        assert "asked_script.py:4" in attach(home, verb).stdout
    gate.write_bytes(b"")
    wait_until_stopped(home, 1)
    assert attach_list(home)[0]["passed"] == ""
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait() == 0
    assert f"--stop-at {stop} " in rank.text("stderr")
