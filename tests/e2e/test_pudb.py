"""Keys of PuDB over the broker: they work as on the rank's own terminal, or say why not; threads take turns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.processes import Processes
from tests.support.pudb_terminal import (
    sit_in_pudb,
)
from tests.support.ranks import attach_list
from tests.support.stopped_rank import (
    PAUSE,
    start_stopped,
    wait_for_list,
    wait_for_whole,
)

pytestmark = pytest.mark.usefixtures("broker")

TWO_THREADS = f"""\
{PAUSE}
both = threading.Barrier(2)
def work(number):
    both.wait()
    set_trace()
    after = number + 1

threads = [threading.Thread(target=work, args=(number,)) for number in (1000, 2000)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("both done", flush=True)
"""


def test_the_stop_of_a_second_thread_follows_in_the_same_terminal(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_stopped(processes, home, TWO_THREADS)
    terminal = sit_in_pudb(open_terminal, "0")
    terminal.wait_for(re.compile("number: [12]000"))
    wait_for_list(home, lambda listed: listed[0]["queued"] == 1)
    first = "1000" if "number: 1000" in "\n".join(terminal.screen) else "2000"
    second = "2000" if first == "1000" else "1000"
    terminal.send("n")
    terminal.wait_for(re.compile(r"^>\s+after = ", re.MULTILINE))
    terminal.send("c")
    terminal.wait_for(f"number: {second}")
    wait_for_whole(terminal, home)
    assert attach_list(home)[0]["queued"] == 0
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text() == "both done\n"
