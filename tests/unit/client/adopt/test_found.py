"""Which processes `adopt --mine` takes for ranks."""

from __future__ import annotations

from dbg_agent.launch.launchers import ROWS
from dbg_client.adopt.found import find_mine, overlooked, topmost
from dbg_client.adopt.process import ProcessInfo
from dbg_wire.tables.launchers import RANK_VARIABLES
from tests.conftest import Approved


def process(pid: int, parent: int, command: str, **environ: str) -> ProcessInfo:
    """Return a process of Python."""
    argv = ("python", *command.split())
    return ProcessInfo(
        pid=pid, uid=1, parent=parent, state="S", tracer=0, name="python", age=60.0, argv=argv, environ=environ
    )


def found(*processes: ProcessInfo, **own: str) -> list[tuple[int, int, bool]]:
    """Return pid, rank and whether it is a rank already, of each candidate."""
    candidates = topmost({process.pid: process for process in processes}, own)
    return [(one.pid, one.rank, one.is_rank) for one in candidates]


def test_ranks_are_found_and_neither_launchers_nor_helpers_nor_our_own() -> None:
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "h"}
    assert found(
        process(1, 0, "shell.py"),
        process(10, 1, "/venv/bin/torchrun train.py", SLURM_PROCID="0", SLURM_STEP_ID="0"),
        process(12, 10, "train.py", RANK="1", **place),
        process(11, 10, "train.py", RANK="0", **place),
        process(20, 11, "-c from multiprocessing.spawn import main", RANK="0", **place),
        process(21, 20, "-c deeper", RANK="0", **place),
        process(30, 12, "/x/dbg_agent/guard/process.py", RANK="1", **place),
        process(40, 1, "/venv/bin/dbg-attach adopt --mine", RANK="5", **place),
        process(41, 1, "-m dbg_broker serve", RANK="5", **place),
    ) == [(11, 0, False), (12, 1, True)]


def test_a_rank_alone_without_a_world_is_left_over_in_a_shell() -> None:
    assert found(process(10, 1, "train.py", RANK="0")) == []
    assert found(process(10, 1, "train.py", RANK="x", WORLD_SIZE="2")) == []


def test_in_a_job_of_a_scheduler_only_its_processes_are_meant() -> None:
    two = [process(pid, 1, "train.py", OMPI_COMM_WORLD_RANK="0", SLURM_JOB_ID=str(pid)) for pid in (10, 11)]
    assert found(*two) == [(10, 0, False), (11, 0, False)]
    assert found(*two, SLURM_JOB_ID="11") == [(11, 0, False)]


def test_a_rank_that_starts_the_others_is_one_itself() -> None:
    place = {"MASTER_ADDR": "h", "MASTER_PORT": "1", "WORLD_SIZE": "2"}
    assert found(
        process(10, 1, "train.py", LOCAL_RANK="0", **place), process(11, 10, "train.py", LOCAL_RANK="1", **place)
    ) == [(10, 0, False), (11, 1, False)]


def test_all_launchers_that_the_agent_knows_are_known() -> None:
    assert {row.rank for row in ROWS if row.rank} == set(RANK_VARIABLES)


def test_the_processes_of_this_machine_can_be_looked_through() -> None:
    assert all(candidate.rank >= 0 for candidate in find_mine()[0])


def test_a_child_with_a_local_rank_of_its_own_and_no_address_is_not_passed_over_in_silence(approved: Approved) -> None:
    place = {"RANK": "0", "WORLD_SIZE": "2"}
    seen = {
        one.pid: one
        for one in (
            process(10, 1, "train.py", LOCAL_RANK="0", MASTER_ADDR="", **place),
            process(11, 10, "worker.py", LOCAL_RANK="1", **place),
            process(12, 11, "helper.py", LOCAL_RANK="1", **place),
        )
    }
    assert found(*seen.values()) == [(10, 0, False)]
    told = overlooked(seen, {})[-1]
    approved(told)
