"""One window of an IDE over ranks that run: of every Python that is supported, and under torchrun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.support.broker import running_broker
from tests.support.ide import Ide, ide
from tests.support.processes import Processes
from tests.support.ranks import NEVER_BOUND_PORTS, start_ranks, wait_until_states

PYTHONS = [Path(sys.executable), *sorted(ROOT.glob(".venvs/*/bin/python"))]
"""This one, and those that `make pythons` has made environments for."""

TRAIN = """\
import dbg_agent, os, sys, time
dbg_agent.install()
def step(batch):
    seen = batch

    return seen
batch = 0
while not os.path.exists(os.environ["DBG_HOME"] + "/enough"):
    batch += 1
    step(batch)
    time.sleep(0.01)
"""


def stop_them_all(window: Ide, script: Path, ranks: int) -> dict[int, int]:
    """Stop ranks that run by one breakpoint of the IDE at a line without code; return their threads."""
    (row,) = window.attach({script: [{"line": 5, "condition": "batch % 7 == 0", "hitCondition": "== 2"}]})
    assert (row["verified"], row["line"], row.get("message", "")) == (True, 6, "")
    threads = {rank: window.stop_of(rank) for rank in range(ranks)}
    for thread in threads.values():
        top = window.top(thread)
        assert (top["line"], top["name"]) == (6, "step")
        assert int(window.variables(top["id"])["seen"]["value"]) % 7 == 0
        assert window.evaluate("seen == batch", top["id"], "watch") == "True"
    return threads


def sets_while_it_runs(python: Path) -> bool:
    """Whether this Python has sys.monitoring, by which a breakpoint counts in functions that exist already."""
    return (
        subprocess.run([python, "-c", "import sys; sys.monitoring"], capture_output=True, check=False).returncode == 0
    )


def test_ranks_of_each_python_stop_at_a_breakpoint_that_is_set_while_they_run(processes: Processes, home: Path) -> None:
    pythons = [python for python in PYTHONS if sets_while_it_runs(python)]
    if not pythons:
        pytest.skip("no Python here has sys.monitoring")
    running_broker(processes, home)
    port = next(NEVER_BOUND_PORTS)
    for rank, python in enumerate(pythons):
        start_ranks(
            processes,
            home,
            TRAIN,
            1,
            wrap=lambda command, python=python: [str(python), *command[1:]],  # type: ignore[misc]
            first=rank,
            world_size=len(pythons),
            master_port=port,
        )
    wait_until_states(home, dict.fromkeys(range(len(pythons)), "running"))
    script = home / "rank_script.py"
    with ide(home) as window:
        threads = stop_them_all(window, script, len(pythons))
        versions = [
            window.evaluate("sys.version_info[1]", window.top(thread)["id"], "watch") for thread in threads.values()
        ]
        assert len(set(versions)) == len(pythons), versions
        (row,) = window.set_breakpoints(script, {"line": 6, "logMessage": "{os.environ['RANK']} saw {seen}"})
        assert row["verified"], row
        for thread in threads.values():
            window.go_on(thread)
        for rank in threads:
            window.printed(rf"(?m):{rank}: {rank} saw \d+")
        wait_until_states(home, dict.fromkeys(range(len(pythons)), "running"))
        window.leave()
    # The adapter itself runs on each of them, too.
    for python in pythons[1:]:
        with ide(home, python=python) as window:
            window.attach()
            assert len(window.threads()) >= 1
            window.leave()
    (home / "enough").touch()
