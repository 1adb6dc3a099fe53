"""Both batch scripts of ``deploy/slurm`` work as they stand."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dbg_command.home import job_token
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, wait_until_stopped
from tests.support.slurm import Slurm
from tests.support.time_unit import seconds

DEPLOY = Path(__file__).parents[3] / "deploy"

SCRIPT = """
import os
from dbg_agent import set_trace
set_trace()
print("rank", os.environ["SLURM_PROCID"], "went on", flush=True)
"""


def job_environment(home: Path) -> dict[str, str]:
    """Return an environment in which ``dbg-broker`` is the installed one, and HOME one of the test's own."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return dict(os.environ) | {"PATH": path, "HOME": str(home)}


def continue_all(home: Path) -> None:
    result = attach(home, "continue", "all")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("is_shared", [True, False], ids=["a home that nodes share", "no such home"])
def test_ranks_of_a_batch_job_find_the_broker_on_the_login_node(
    slurm: Slurm, processes: Processes, home: Path, tmp_path: Path, is_shared: bool
) -> None:
    # The emulated nodes have names of their own: to their ranks, a broker on loopback is on another host.
    broker = running_broker(processes, home, listen="0.0.0.0")  # noqa: S104 - as the script's first lines say
    environ = job_environment(tmp_path)
    if not is_shared:
        pin = broker.rendezvous["fingerprint"]
        token = job_token(broker.tokens["rank"], "train-1")
        environ |= {"DBG_HOME": str(tmp_path / "none"), "DBG_JOB": "train-1", "DBG_TOKEN": token}
        environ |= {"DBG_BROKER": f"{broker.url.removeprefix('wss://')}#{pin}"}
    (tmp_path / "train.py").write_text(SCRIPT)
    log = tmp_path / "job.log"
    job = slurm.sbatch(
        f"--output={log}",
        str(DEPLOY / "slurm/broker_on_login.sbatch"),
        *(sys.executable, str(tmp_path / "train.py")),
        env=environ,
    )
    stopped = wait_until_stopped(home, 4, seconds(60))
    assert {rank["host"] for rank in stopped} == {"node1", "node2"}
    assert sorted(rank["rank"] for rank in stopped) == [0, 1, 2, 3]
    assert {rank["job"] for rank in stopped} == {f"{job}.0" if is_shared else "train-1"}
    continue_all(home)
    assert slurm.wait_for_job(job) == 0
    text = log.read_text()
    assert text.count("went on") == 4
    assert "will not find the broker" not in text


def test_a_batch_job_starts_and_ends_its_own_broker(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    log = tmp_path / "job.log"
    job = slurm.sbatch(
        f"--output={log}",
        str(DEPLOY / "slurm/broker_in_job.sbatch"),
        *(sys.executable, str(tmp_path / "train.py")),
        env=job_environment(tmp_path),
    )
    home = tmp_path / ".dbg-broker" / job
    slurm.wait_for_file(home / "broker.json")
    wait_until_stopped(home, 4, seconds(60))
    assert f"DBG_HOME={home} dbg-attach list" in log.read_text()
    continue_all(home)
    assert slurm.wait_for_job(job) == 0
    assert log.read_text().count("went on") == 4
    assert not home.exists()
