"""Threads that wait in functions of libraries, in programs of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dbg_wire.records.evidence import Activity, OtherProcess, ThreadWait
from dbg_wire.records.record import decode_record
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

pytestmark = needs_torch

LOOK = """
import multiprocessing, os, subprocess, sys, threading, time
from dbg_agent.evidence import threads
from dbg_agent.host import descriptors
from dbg_wire.records.record import encode_record
threads.MAX_SECONDS = descriptors.MAX_SECONDS = 3600.0

def look(wanted):
    before = None
    while True:
        seen = threads.threads_seen(None)
        does = seen[0].does
        # The thread may be on its way to its last wait.
        now = does.what.name, does.name, does.processes
        if now[0] == wanted and now == before:
            break
        before = now
        time.sleep(0.05)
    for one in (seen[0], *threads.processes_seen(seen)):
        print(encode_record(one), flush=True)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)

def look_for(wanted):
    threading.Thread(target=look, args=(wanted,), name="dbg-agent-look", daemon=True).start()
"""


def observe(folder: Path, program: str) -> tuple[ThreadWait, list[OtherProcess]]:
    """Return what is observed of a program's main thread, and of the processes for which it waits."""
    script = folder / "program.py"
    script.write_text(LOOK + program)
    ran = subprocess.run([sys.executable, script], capture_output=True, timeout=seconds(60), check=False, text=True)
    assert ran.stderr == ""
    main, *others = (decode_record(ThreadWait | OtherProcess, line) for line in ran.stdout.splitlines())
    return main, others


LOADER = """
import signal
import torch.utils.data

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if torch.utils.data.get_worker_info().id == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        return index

loader = iter(torch.utils.data.DataLoader(Data(), num_workers=2))
next(loader)
os.waitid(os.P_PID, loader._workers[1].pid, os.WSTOPPED | os.WNOWAIT)
look_for("LOADER")
next(loader)
"""


def test_a_wait_for_a_data_loader_names_the_next_worker_and_its_activity(tmp_path: Path) -> None:
    main, (worker,) = observe(tmp_path, LOADER)
    assert (main.does.count, main.holder, [one.pid for one in main.does.processes]) == (1, worker.pid, [worker.pid])
    assert worker.does.what is Activity.SUSPENDED


HOLDER = """
holds = "import sys; {}; print(flush=True); sys.stdin.read()"
holder = subprocess.Popen(
    [sys.executable, "-c", holds, "{}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
holder.stdout.readline()
look_for("{}")
{}
"""
LOCKS = "import filelock; filelock.FileLock({!r}).acquire()"
HOLDS = "import filelock; lock = filelock.FileLock(sys.argv[1]).acquire()"
BATON = "import torch.utils.file_baton; torch.utils.file_baton.FileBaton({!r}).wait()"


@pytest.mark.parametrize(
    ("holds", "waits", "what", "is_held"),
    [
        pytest.param(HOLDS, LOCKS, Activity.FILE_LOCK, True, id="a file lock"),
        pytest.param("pass", BATON, Activity.LOCK_FILE, False, id="a baton that nobody has"),
        pytest.param("file = open(sys.argv[1])", BATON, Activity.LOCK_FILE, True, id="a baton"),
    ],
)
def test_a_wait_for_a_file_lock_names_its_holder_even_through_a_link(
    tmp_path: Path, holds: str, waits: str, what: Activity, is_held: bool
) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "link").symlink_to("build")
    path = str(tmp_path / "link" / "lock")
    Path(path).write_text("")
    main, _ = observe(tmp_path, HOLDER.format(holds, path, what.name, waits.format(path)))
    assert Path(main.does.name).resolve() == Path(path).resolve()
    assert [one.command.startswith("python") for one in main.does.processes] == [True] * is_held
    assert (main.does.seconds is not None) == (what is Activity.LOCK_FILE)


def test_a_wait_for_a_key_of_a_store_names_the_key(tmp_path: Path) -> None:
    program = """
import torch.distributed as dist
store = dist.PrefixStore("run", dist.TCPStore("127.0.0.1", 0, is_master=True))
look_for("STORE_KEY")
store.get("run_name")
"""
    does = observe(tmp_path, program)[0].does
    assert (does.name, does.module, does.owner) == ("run_name", "PrefixStore", "store")


def test_a_wait_for_other_ranks_names_the_store(tmp_path: Path) -> None:
    program = """
import socket
import torch.distributed as dist
with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
look_for("COLLECTIVE")
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=2)
"""
    does = observe(tmp_path, program)[0].does
    assert (does.name, does.address.partition(":")[0]) == ("init_process_group", "127.0.0.1")
