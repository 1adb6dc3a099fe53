"""An IDE, a coding agent and the server of the page, each by a client that is not ours, beside real ranks."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.e2e.test_dap import TRAIN
from tests.support.broker import running_broker
from tests.support.ide import Ide, adapter_process, ide
from tests.support.processes import Processes
from tests.support.ranks import start_ranks, wait_until_states
from tests.support.time_unit import seconds


def test_a_rank_stays_stopped_when_its_adapter_dies_and_another_attaches(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, TRAIN, 1)
    wait_until_states(home, {0: "stopped"})
    with adapter_process(home) as process:
        window = Ide.of(process)
        window.attach()
        thread = window.stop_of(0)
        window.request("next", {"threadId": thread})
        window.stopped(thread)
        process.send_signal(signal.SIGKILL)
        assert window.is_over.wait(seconds(20))
        window.close()
    wait_until_states(home, {0: "stopped"})
    with ide(home) as window:
        window.attach()
        assert window.variables(window.top(window.stop_of(0))["id"])["rank"]["value"] == "0"
        window.leave()
    wait_until_states(home, {0: "stopped"})


def test_the_rank_sends_a_file_that_the_ide_does_not_have(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, TRAIN, 1)
    wait_until_states(home, {0: "stopped"})
    elsewhere = home / "elsewhere"
    mappings = [{"localRoot": str(elsewhere), "remoteRoot": str(home)}]
    with ide(home) as window:
        rows = window.attach({elsewhere / "rank_script.py": [{"line": 7}]}, pathMappings=mappings)
        assert (rows[0]["verified"], rows[0]["source"]["path"]) == (True, str(elsewhere / "rank_script.py"))
        source = window.top(window.stop_of(0))["source"]
        assert source["path"] == str(elsewhere / "rank_script.py")
        given = {"source": source, "sourceReference": source["sourceReference"]}
        assert window.request("source", given)["content"].rstrip("\n") == TRAIN.rstrip("\n")
        window.leave()
