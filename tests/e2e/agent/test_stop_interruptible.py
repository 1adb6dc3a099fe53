"""Work is interrupted while it runs, and nothing is raised after it, whenever the interrupt comes."""

from __future__ import annotations

import subprocess
import sys

TRACED_AFTERWARDS = """
import sys, threading
from dbg_agent.stop.interruptible import Interruptible

def work():
    interruptible = Interruptible(lambda seconds, call: None)
    try:
        with interruptible.running() as ticket:
            interruptible.interrupt(ticket)
    except KeyboardInterrupt:
        print("interrupted")

thread = threading.Thread(target=work)
thread.start()
thread.join()
sys.settrace(lambda *event: None)
(lambda: print("called"))()
"""


def test_a_traced_call_begins_after_an_interrupt_was_taken_back() -> None:
    # A separate process: a mark that an interrupt leaves in the interpreter would keep the call from ever beginning.
    command = [sys.executable, "-c", TRACED_AFTERWARDS]
    ended = subprocess.run(command, capture_output=True, check=True, text=True, timeout=20)
    assert (ended.stdout, ended.stderr) == ("interrupted\ncalled\n", "")
