"""What `/proc` tells of a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.launch.launchers import ROWS
from dbg_client.adopt.found import overlooked, topmost
from dbg_client.adopt.process import (
    ProcessInfo,
    all_pids,
    is_dumpable,
    mappings,
    may_trace,
    program_words,
    read_process,
    same_files,
    sleeps_for_good,
    waits_safely,
)
from dbg_client.adopt.python import Elf, NotElf
from dbg_wire.tables.launchers import RANK_VARIABLES
from dbg_wire.tables.system_calls import call_names
from tests.conftest import Approved


def test_this_process_is_seen_as_it_is() -> None:
    seen = read_process(os.getpid())
    assert seen is not None
    assert (seen.pid, seen.parent, seen.uid) == (os.getpid(), os.getppid(), os.getuid())
    assert seen.age > 0
    assert (seen.tracer, seen.state in "RS") == (0, True)
    assert seen.pid in all_pids()
    assert any("python" in path for path in mappings(seen.pid))
    assert same_files(seen.pid)
    assert may_trace(seen.pid)
    assert is_dumpable(seen)
    assert not sleeps_for_good(seen.pid)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("python train.py --lr 1", "train.py --lr 1"),
        ("python -u -X dev -W error train.py", "train.py"),
        ("python -um torch.distributed.run x.py", "-m torch.distributed.run x.py"),
        ("python -m train", "-m train"),
        ("python -c pass", "-c pass"),
        ("python", ""),
    ],
)
def test_the_program_stands_behind_the_options(argv: str, words: str) -> None:
    assert " ".join(program_words(tuple(argv.split()))) == words


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


PYTHON = Path(sys.executable).resolve()


def test_functions_are_found_where_the_c_library_says_that_they_are() -> None:
    path = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so.6" in line)
    found = Elf(Path(path).read_bytes()).addresses(["mmap", "munmap", "no_such_function"])
    assert set(found) == {"mmap", "munmap"}
    assert all(address > 0 and size > 0 for address, size in found.values())


@given(st.binary(max_size=200))
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(NotElf):
        Elf(data)


@given(st.integers(min_value=7, max_value=4000), st.binary(min_size=1, max_size=40))
def test_damaged_files_raise_nothing_else(at: int, damage: bytes) -> None:
    whole = PYTHON.read_bytes()[:20_000]
    data = whole[:at] + damage + whole[at + len(damage) :]
    try:
        elf = Elf(data)
        assert isinstance(elf.lowest, int)
        elf.addresses(["mmap"])
    except NotElf:
        pass


@pytest.mark.parametrize(
    ("machine", "number", "is_safe"),
    [
        ("x86_64", 202, True),
        ("x86_64", 9, False),
        ("x86_64", 12, False),
        ("x86_64", None, False),
        ("m68k", 202, False),
        (os.uname().machine, {name: n for n, name in call_names(os.uname().machine).items()}["futex"], True),
    ],
    ids=["futex", "mmap", "brk", "none", "another machine", "this machine"],
)
def test_waiting_is_safe_and_taking_memory_is_not(machine: str, number: int | None, is_safe: bool) -> None:
    assert waits_safely(machine, number) is is_safe
