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
threads.MAX_SECONDS = 3600.0

def look(wanted):
    while True:
        told = {one.thread: one for one in threads.threads_seen(None)}
        if wanted in told["MainThread"].text:
            break
        time.sleep(0)
    for one in told.values():
        print(one.thread, one.kind.value, one.deadlock, one.text, sep="|", flush=True)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)
"""


def told(folder: Path, program: str) -> dict[str, tuple[str, str, str]]:
    """Return kind, number of the circle and sentence of each thread of a program."""
    script = folder / "program.py"
    script.write_text(LOOK + program)
    ran = subprocess.run([sys.executable, script], capture_output=True, timeout=seconds(60), check=False, text=True)
    assert ran.stderr == ""
    rows = [line.split("|") for line in ran.stdout.splitlines()]
    return {name: (kind, circle, text) for name, kind, circle, text in rows}


def test_a_program_that_ends_names_the_threads_that_it_waits_for(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        """
threading.Thread(target=threading.Event().wait, name="flush").start()
threading.Thread(target=look, args=("end of thread",), name="dbg-agent-look", daemon=True).start()
""",
    )
    text = "is at the end of the program, and waits for the end of thread flush"
    assert found["MainThread"] == ("lock", "0", text)


@needs_torch
def test_a_data_loader_is_told_with_the_states_of_its_workers(tmp_path: Path) -> None:
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
        time.sleep(3600)

threading.Thread(target=look, args=("suspended",), name="dbg-agent-look", daemon=True).start()
for batch in torch.utils.data.DataLoader(Data(), num_workers=2):
    pass
""",
    )
    kind, _, text = found["MainThread"]
    assert kind == "data"
    match = re.fullmatch(
        r"waits for a batch of DataLoader's worker processes (\d+), (\d+) \((\d+) is suspended\)", text
    )
    assert match is not None, text
    assert match[3] == match[2]
