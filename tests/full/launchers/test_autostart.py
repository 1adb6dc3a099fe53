"""Autostart under real launchers: only ranks take part, without a change of code; stops are named from outside."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from dbg_agent.rank.rank import WAITS_ON
from tests.e2e.test_autostart import HERE, ONCE, TOTAL, check_ranks, environment, let_end, write_program
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import wait_until_stopped
from tests.support.slurm import Slurm

JOB_SCRIPT = """\
{python} -m pip --version >/dev/null
{python} -c 'import json'
exec "$@"
"""


def test_a_stop_that_was_asked_for_waits_for_a_broker_that_is_suspended(
    processes: Processes, home: Path, tmp_path: Path
) -> None:
    broker = running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    variables: dict[str, Any] = {"RANK": "0", "WORLD_SIZE": "1", "DBG_HOME": str(home), "DBG_CONNECT_TIMEOUT": "0.5"}
    broker.process.signal(signal.SIGSTOP)
    try:
        job = processes.start(
            "job", [sys.executable, str(program)], env=environment(f"{program}:{TOTAL}, step == 1", **variables)
        )
        job.wait_for_output(WAITS_ON, stream="stderr")
    finally:
        broker.process.signal(signal.SIGCONT)
    (stopped,) = wait_until_stopped(home, 1)
    assert stopped["where"]["line"] == TOTAL
    let_end(home, job, 1)
    assert "passed without stopping" not in job.text("stderr")


def test_a_script_under_srun(slurm: Slurm, processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    (tmp_path / "job.sh").write_text(JOB_SCRIPT.format(python=sys.executable))
    command = ["srun", "-N2", "-n2", "sh", str(tmp_path / "job.sh"), sys.executable, str(program)]
    env = environment(f"train.py:{ONCE}", slurm.environment())
    job = processes.start("srun", command, env=env)
    check_ranks(home, ["node1:0", "node2:1"], program)
    let_end(home, job, 2)


def test_chosen_ranks_stop_and_the_others_wait(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    ranks = []
    for rank in ("0", "1"):
        numbers = {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "20000"}
        env = environment(f"train.py:{ONCE}") | numbers | {"DBG_RANKS": "1"}
        ranks.append(processes.start(f"rank{rank}", [sys.executable, str(program)], env=env))
    wait_until_stopped(home, 1)
    assert [rank["address"] for rank in wait_until_stopped(home, 1)] == [f"{HERE}:1"]
    let_end(home, ranks[1], 1)
    assert ranks[0].wait() == 0
