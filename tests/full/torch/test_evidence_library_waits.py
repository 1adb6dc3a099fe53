"""Threads that wait in functions of libraries, in programs of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

LOOK = """
import multiprocessing, os, sys, threading, time
from dbg_agent.evidence import threads
from dbg_agent.host import descriptors
threads.MAX_SECONDS = descriptors.MAX_SECONDS = 3600.0

def look(wanted):
    while True:
        seen = threads.threads_seen(None)
        told = {one.thread: one for one in seen}
        if wanted in told["MainThread"].text:
            break
        time.sleep(0)
    for one in told.values():
        print(one.thread, one.kind.value, [*one.awaits], one.text, sep="|", flush=True)
    for one in threads.processes_seen(seen):
        print("process", one.pid, one.holder, one.text, sep="|", flush=True)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)
"""


def told(folder: Path, program: str) -> dict[str, tuple[str, str, str]]:
    """Return kind, numbers of the awaited threads, and sentence of each thread of a program, and of a process."""
    script = folder / "program.py"
    script.write_text(LOOK + program)
    ran = subprocess.run([sys.executable, script], capture_output=True, timeout=seconds(60), check=False, text=True)
    assert ran.stderr == ""
    rows = [line.split("|", 3) for line in ran.stdout.splitlines()]
    return {name: (kind, circle, text) for name, kind, circle, text in rows}


def test_a_program_that_ends_names_the_threads_that_it_waits_for(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
threading.Thread(target=threading.Event().wait, name="flush").start()
threading.Thread(target=look, args=("ended its program",), name="dbg-agent-look", daemon=True).start()
""",
    )
    kind, circle, text = found["MainThread"]
    assert (kind, circle) == ("lock", "[2]")
    assert text.endswith(" thread flush")


@needs_torch
def test_a_data_loader_is_told_with_the_worker_that_is_to_come_next_and_what_that_does(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
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
threading.Thread(target=look, args=("DataLoader",), name="dbg-agent-look", daemon=True).start()
next(loader)
""",
    )
    kind, _, text = found["MainThread"]
    assert kind == "data"
    match = re.fullmatch(r".* worker 1 \(process (\d+)\)", text)
    assert match is not None, text
    assert found["process"][0] == match[1]
    assert found["process"][2] == "is suspended", found


HOLDER = """
import subprocess
holds = "import sys; {}; print(flush=True); sys.stdin.read()"
holder = subprocess.Popen(
    [sys.executable, "-c", holds, "{}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
holder.stdout.readline()
threading.Thread(target=look, args=("{}",), name="dbg-agent-look", daemon=True).start()
"""


@needs_torch
def test_a_file_lock_is_told_with_the_process_that_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "dataset.lock"
    take = "import filelock; lock = filelock.FileLock(sys.argv[1]).acquire()"
    wait = f"import filelock\nfilelock.FileLock({str(path)!r}).acquire()\n"
    kind, _, text = told(tmp_path, HOLDER.format(take, path, "lock of the file") + wait)["MainThread"]
    assert kind == "file"
    held = rf".* file {re.escape(str(path))}, .* process \d+ \(`python.*`\) holds"
    assert re.fullmatch(held, text), text


@needs_torch
def test_a_file_baton_is_told_with_the_process_that_has_it_or_with_nobody_also_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "link").symlink_to("build")
    path = tmp_path / "link" / "lock"
    path.write_text("")
    wait = f"import torch.utils.file_baton\ntorch.utils.file_baton.FileBaton({str(path)!r}).wait()\n"
    text = f"waits until the file {path} is gone (FileBaton), "
    found = told(tmp_path, HOLDER.format("pass", path, "FileBaton") + wait)["MainThread"]
    nobody = r"made \d+ (s|min) ago, .*"
    assert re.fullmatch(re.escape(text) + nobody, found[2]), found[2]
    found = told(tmp_path, HOLDER.format("file = open(sys.argv[1])", path, "FileBaton") + wait)["MainThread"]
    assert found[2].startswith(f"{text}which the process ")


@needs_torch
def test_a_key_of_a_store_that_nobody_has_set_is_named(tmp_path: Path) -> None:
    program = """
import torch.distributed as dist
store = dist.PrefixStore("run", dist.TCPStore("127.0.0.1", 0, is_master=True))
threading.Thread(target=look, args=("run_name",), name="dbg-agent-look", daemon=True).start()
store.get("run_name")
"""
    kind, _, text = told(tmp_path, program)["MainThread"]
    assert (kind, text) == ("data", "waits for the key run_name of the PrefixStore store to be set")


@needs_torch
def test_a_rank_that_waits_for_the_others_tells_at_which_store(tmp_path: Path) -> None:
    program = """
import socket
import torch.distributed as dist
with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
threading.Thread(target=look, args=("at the store",), name="dbg-agent-look", daemon=True).start()
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=2)
"""
    kind, _, text = told(tmp_path, program)["MainThread"]
    assert kind == "collective"
    assert re.fullmatch(r"is in init_process_group at the store 127\.0\.0\.1:\d+ \(program\.py:\d+\)", text), text
