"""Chosen ranks stop, others wait for them; a crash is kept, and everything ends afterwards as without the debugger."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.e2e.test_hold import ENDS, LEASED
from tests.smoke.test_hold_and_crash import JOB, wait_until_kept
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import (
    ask,
    attach,
    attach_command,
    start_ranks,
    texts,
    wait_until_states,
    wait_until_stopped,
)
from tests.support.time_unit import seconds


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


def test_a_driver_ends_a_lease_and_a_watcher_does_not(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    script = "from dbg_agent import set_trace\nset_trace(lease=3)\nprint('went on')\n"
    (watched,) = start_ranks(processes, home, script, 1, name="watched")
    wait_until_states(home, {0: "stopped"})
    terminal = open_terminal(attach_command("0", "--watch"))
    watched.wait_for_output("went on")
    assert terminal.exit_status() == 7
    (driven,) = start_ranks(processes, home, script.replace("3", "2"), 1, name="driven")
    terminal = open_terminal(attach_command("wait", "0"))
    terminal.wait_for("PuDB")
    terminal.send(b"\x1dd")
    assert terminal.exit_status() == 0
    # The driver ended the lease for good, so only `continue` lets the rank go.
    assert not driven.ends_within(seconds(3))
    assert attach(home, "continue", "0").returncode == 0
    assert driven.wait() == 0


HELD = """\
import dbg_agent
dbg_agent.set_trace(ranks=0)
print("went on", flush=True)
"""


def test_an_idle_terminal_sees_the_end_of_the_stop_and_of_the_rank(
    leased_broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    (rank,) = start_ranks(processes, home, LEASED, 1)
    wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, ":0")
    rank.wait_for_output("went on")
    assert ENDS.search(rank.text("stderr"))
    terminal.wait_for("ValueError")
    assert terminal.exit_status() == 8
    assert rank.wait() == 1
    assert len(ENDS.findall(rank.text("stderr"))) == 2


def test_leases_end_without_the_broker_and_held_ranks_follow(
    leased_broker: RunningBroker, processes: Processes, home: Path
) -> None:
    ranks = start_ranks(processes, home, HELD, 2)
    wait_until_states(home, {0: "stopped", 1: "held"})
    leased_broker.kill()
    assert [rank.wait() for rank in ranks] == [0, 0]
    assert ENDS.search(ranks[0].text("stderr"))
    assert "(--max-lease)" in ranks[1].text("stderr")


TWICE = """\
import os
from dbg_agent import set_trace
rank = int(os.environ["RANK"])
for turn in range(2):
    set_trace(ranks=[0, 1])
    print("passed", turn, flush=True)
"""


def test_held_ranks_wait_for_each_visit_separately(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, TWICE, 3)
    both = {0: "stopped", 1: "stopped", 2: "held"}
    wait_until_states(home, both)
    assert attach(home, "continue", "0").returncode == 0
    ranks[0].wait_for_output("passed 0")
    # Rank 2 still waits: rank 1 is at its first visit, although rank 0 is at its second.
    wait_until_states(home, both)
    assert "passed" not in ranks[2].text()
    assert attach(home, "continue", "1").returncode == 0
    ranks[2].wait_for_output("passed 0")
    wait_until_states(home, both)
    assert attach(home, "continue", "stopped").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0, 0]


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
