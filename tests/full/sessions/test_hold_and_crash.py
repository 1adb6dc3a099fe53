"""Chosen ranks stop, others wait for them; a crash is kept, and everything ends afterwards as without the debugger."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.smoke.test_hold_and_crash import JOB, wait_until_kept
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, start_ranks, texts, wait_until_states


def test_the_traceback_of_a_kept_crash_is_printed_at_once_under_any_hook(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    # Torch installs such a hook once it has a process group.
    script = """\
import io, sys
import dbg_agent
dbg_agent.install(post_mortem=True, lease=600)
former = sys.excepthook
def hook(*args):
    stderr, sys.stderr = sys.stderr, io.StringIO()
    try:
        former(*args)
    finally:
        buffer, sys.stderr = sys.stderr, stderr
    sys.stderr.write("[rank0]: " + buffer.getvalue())
sys.excepthook = hook
raise ValueError("raised at once")
"""
    (rank,) = start_ranks(processes, home, script, 1)
    rank.wait_for_output("ValueError: raised at once", stream="stderr")
    rank.wait_for_output("stopped at", stream="stderr")
    wait_until_states(home, {0: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait() == 1
    assert rank.text("stderr").count("ValueError: raised at once") == 1


def test_a_rank_waits_for_an_absent_chosen_rank_until_the_grace_ends(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = """\
import os, time
from dbg_agent import install, set_trace
install()
if os.environ["RANK"] == "1":
    set_trace(ranks=0, hold_grace=1)
while not os.path.exists("end"):
    time.sleep(0.05)
"""
    ranks = start_ranks(processes, home, script, 2)
    ranks[1].wait_for_output(r":5 within 1 s", stream="stderr")
    for number in range(2):
        (home / "homes" / f"rank{number}" / "end").touch()
    assert [rank.wait() for rank in ranks] == [0, 0]


CRASHED = {0: "held", 1: "stopped", 2: "held"}


def test_sigterm_of_a_launcher_is_reported_and_a_kept_crash_stays(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    _, rank, _ = start_ranks(processes, home, JOB, 3)
    wait_until_kept(home, CRASHED)
    rank.signal(signal.SIGTERM)
    rank.wait_for_output("SIGTERM", stream="stderr")
    assert "got SIGTERM" in attach(home, "list").stdout
    assert texts(ask(home, "eval", "crashed", "batch")) == {"1": "7"}
    assert attach(home, "continue", "crashed").returncode == 0
    assert rank.wait() == 1
