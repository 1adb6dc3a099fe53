"""A process without any code of ours becomes a rank: with this Python, by gdb, as `dbg-attach adopt` does it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dbg_client.adopt.one import adopt_one
from dbg_client.adopt.payload import Outcome
from tests.support.processes import Child, Processes
from tests.support.requirements import needs_gdb

pytestmark = needs_gdb

SLEEPS = """\
import time
print("up", flush=True)
while True:
    time.sleep(1000)
"""

COMPUTES = """\
import signal, sys
print("up", flush=True)
before = dict(globals())
handlers = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)}
while "dbg_agent" not in sys.modules or "dbg_agent.program.installing" not in sys.modules:
    total = sum(range(1000))
assert {name: signal.getsignal(name) for name in handlers} == handlers
added = set(globals()) - set(before) - {"before", "handlers", "total"}
print("added", sorted(added), len(sys.argv), flush=True)
while True:
    total = sum(range(1000))
"""

TAKES_LONG = """\
import sys, time
import dbg_agent
install = dbg_agent.install
is_installed = False
def installs_slowly():
    global is_installed
    install()
    time.sleep(2)
    print("installed", flush=True)
    is_installed = True
dbg_agent.install = installs_slowly
print("up", flush=True)
while not is_installed or "_dbg_adopts" in vars(sys):
    total = sum(range(1000))
print("left", [name for name in vars(sys) if "dbg" in name], flush=True)
time.sleep(3600)
"""
"""The main thread waits for two seconds on its way to a rank, in which the process is looked at several times more."""


def start(processes: Processes, home: Path, script: str, *, python: str = sys.executable) -> Child:
    """Start a script as rank 3 of 8 and return when it runs."""
    path = home / "train.py"
    path.write_text(script)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("DBG_")}
    child = processes.start("rank", [python, str(path)], env={**variables, "RANK": "3", "WORLD_SIZE": "8"})
    child.wait_for_output("up")
    return child


def test_a_process_that_computes_becomes_a_rank_and_keeps_its_names_and_handlers(
    processes: Processes, home: Path
) -> None:
    child = start(processes, home, COMPUTES)
    answer = adopt_one(child.pid, {"DBG_HOME": str(home)})
    assert (answer.outcome, answer.main) == (Outcome.ADOPTED, True)
    assert child.wait_for_output(r"added (\[.*\]) 1")[1] == "[]"


def test_a_slow_adoption_is_reported_as_adopted(processes: Processes, home: Path) -> None:
    child = start(processes, home, TAKES_LONG)
    assert adopt_one(child.pid, {"DBG_HOME": str(home)}).outcome is Outcome.ADOPTED
    child.wait_for_output(r"installed\nleft \[\]")


def test_a_program_without_the_package_gets_it(processes: Processes, home: Path) -> None:
    base = getattr(sys, "_base_executable", sys.executable)
    child = start(processes, home, SLEEPS, python=base)
    assert adopt_one(child.pid, {"DBG_HOME": str(home)}).outcome is Outcome.ADOPTED


SPINS = """\
import hashlib, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("up", flush=True)
hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""


def test_a_main_thread_in_c_code_is_not_interrupted(processes: Processes, home: Path) -> None:
    child = start(processes, home, SPINS)
    answer = adopt_one(child.pid, {"DBG_HOME": str(home)})
    assert (answer.outcome, answer.main) == (Outcome.ADOPTED, False)
    assert child.exit_status is None
