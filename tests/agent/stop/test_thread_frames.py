"""The frames of all threads are read without a lock-up, and nothing of ours reads them in another way."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

import pytest

import dbg_agent
from dbg_agent.stop import stacks as module
from dbg_agent.stop.stacks import all_frames
from tests.support.processes import Processes
from tests.support.time_unit import seconds

LOOKS_AND_COLLECTS = """\
import gc, threading, time
from dbg_agent.stop.stacks import all_frames

class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        time.sleep(0.001)

def start_threads():
    while True:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

for _ in range(3):
    threading.Thread(target=start_threads, daemon=True).start()
gc.set_threshold(1)
for _ in range(300):
    Cycle()
    assert len(all_frames()) > 1
print("collects", gc.isenabled())
"""
"""Each allocation begins a collection, each collection lets other threads run, and threads start and end all the time.
Two looks by `sys._current_frames` alone are enough to stop Python 3.11.7 for ever."""


def test_threads_that_start_and_end_while_garbage_is_collected_stop_nothing(processes: Processes) -> None:
    program = processes.start("program", [sys.executable, "-c", LOOKS_AND_COLLECTS])
    assert program.wait(seconds(30)) == 0
    assert program.text() == "collects True\n"


@pytest.mark.parametrize("may_lock_up", [True, False])
def test_each_thread_has_its_innermost_frame(may_lock_up: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_MAY_LOCK_UP", may_lock_up)
    is_up, may_end = threading.Event(), threading.Event()

    def waits() -> None:
        is_up.set()
        may_end.wait()

    thread = threading.Thread(target=waits)
    thread.start()
    is_up.wait()
    frames = all_frames()
    may_end.set()
    thread.join()
    assert frames[threading.get_ident()].f_code is all_frames.__code__
    walk = frames[thread.ident or 0]
    while walk.f_code is not waits.__code__:
        assert walk.f_back is not None
        walk = walk.f_back


@pytest.mark.parametrize("collects", [True, False])
def test_collections_are_on_or_off_as_before(collects: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_MAY_LOCK_UP", True)
    if not collects:
        gc.disable()
    try:
        all_frames()
        assert gc.isenabled() is collects
    finally:
        gc.enable()


def test_collections_are_on_again_after_a_failed_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise MemoryError

    monkeypatch.setattr(module, "LOOK_MAY_LOCK_UP", True)
    monkeypatch.setattr(sys, "_current_frames", fails)
    with pytest.raises(MemoryError):
        all_frames()
    assert gc.isenabled()


def test_all_looks_of_ours_are_made_so() -> None:
    folder = Path(dbg_agent.__file__).parent
    looking = [str(path.relative_to(folder)) for path in folder.rglob("*.py") if "_current_frames(" in path.read_text()]
    assert looking == ["stop/stacks.py"]
