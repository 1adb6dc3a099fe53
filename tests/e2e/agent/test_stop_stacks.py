"""Stacks as they are told: without our own frames, and bounded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


PROBE = """\
import sys
from dbg_agent.stop.stacks import stack_of
from tests.unit.agent.pdb_driver import Driver, play
from tests.unit.agent.pudb_viewer import Viewer
from tests.unit.agent.pudb_viewer import play as play_in_pudb

print("where", stack_of(sys._getframe())[0].file)

driver = Driver()

def type_in_pdb():
    print("pdb", driver.output_of("w").splitlines()[0])
    driver.say("c")

play(driver, type_in_pdb)
viewer = Viewer()

def type_in_pudb():
    viewer.opens()
    print("pudb", viewer.rank.debuggers.last.stack[0][0].f_code.co_filename)
    viewer.type(b"c")

play_in_pudb(viewer, type_in_pudb)
"""


def test_a_module_that_is_run_has_no_runner_below_it_in_where_pdb_and_pudb(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    root = Path(__file__).parents[4]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{root}", "HOME": str(tmp_path)}
    run = [sys.executable, "-m", "probe"]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True, timeout=seconds(60))
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert {name: Path(where.partition("(")[0]).name for name, where in lines.items()} == dict.fromkeys(
        ("where", "pdb", "pudb"), "probe.py"
    )
