"""Commands that a page shows without what they print are run as they stand, or another test runs what they show."""

from __future__ import annotations

from pathlib import Path

from tests.docs.console import Step
from tests.docs.scenes import SCENES, Stage
from tests.support.processes import Processes

IN_A_HANG = {
    "dbg-attach where all": "4 of 4 ranks answered",
    "dbg-attach list": "gpu013:2  running",
    "dbg-attach where 2 --native": "where: ",
    "dbg-attach exec 2 -- sh -c 'py-spy dump --pid $DBG_PID'": "wait_for_shard",
    "dbg-attach exec 0-3 -- sh -c 'ls -l /proc/$DBG_PID/fd | wc -l'": "4 of 4 ranks answered",
    "dbg-broker status --json": '"schema": 1',
    "dbg-broker token --role watcher": "",
    "dbg-broker token --role watcher --job train-4711 --for 2h --name alice": "alice: a watcher of job train-4711",
    "dbg-broker token --list": "alice  a watcher of job train-4711, until",
    "dbg-broker log --since 2h --job train-4711": "token-made at train-4711",
    "dbg-broker token --revoke alice": "alice is revoked",
    "dbg-broker token --rotate": "the home has new tokens",
}
"""Commands in an order in which they can be run, and a part of what each prints."""


def test_commands_print_the_documented_output(processes: Processes, tmp_path: Path) -> None:
    stage = Stage(processes, SCENES["hang"], tmp_path)
    for command, prints in IN_A_HANG.items():
        printed = "\n".join(stage.play(Step(f"{command} || echo ended with status $?", ())))
        assert prints in printed, f"$ {command}\n{printed}"
        assert "ended with status" not in printed, f"$ {command}\n{printed}"
