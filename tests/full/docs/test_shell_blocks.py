"""Commands that a page shows without what they print are run as they stand, or another test runs what they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.console import Step
from tests.docs.pages import ROOT, blocks, pages
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

ELSEWHERE = (
    r"dbg-broker serve .*",
    r"dbg-attach run .*",
    r"dbg-attach why ~/.*",
    r"systemd-run .*",
    r".*\b(?:srun|sbatch)\b.*",
    r"env DBG_HOME=\S+ dbg-attach .*",
    r"\(umask 077; .*",
    r"ssh .*",
    r"(?:for host in|nats-server|install|systemctl|cd|export DBG_CLUSTER_CREDENTIALS=).*",
    r"kubectl .*",
    r"dbg-attach 0 --follow",
    r"export DBG_(?:HOME=/var/lib|TOKEN_FILE=~/).*",
    r"docker .*",
    r"dbg-attach adopt .*",
    r"dbg-attach exec all --per-host -- nvidia-smi -L.*",
    r"dbg-attach exec \d -- sh -c 'timeout 5 strace .*",
    r"dbg-attach (?:wait )?\d",
    r"dbg-attach --(?:watch|take) \d",
    r"dbg-attach tmux .*",
    r"dbg-attach \d --record \S+",
    r"\s*(?:\w+=\S+ )*python -m dbg_agent .*",
    r"PYTHONBREAKPOINT=\S+ torchrun .*",
)
"""Forms of commands that other tests run with other arguments, or that need two hosts, Docker, Kubernetes or strace."""


def commands() -> Iterator[tuple[Path, str]]:
    """Yield the lines of all blocks for a shell that have a command of ours, continued ones joined."""
    for page in pages():
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.language == "sh":
                for line in re.sub(r"\\\n\s*", "", block.text).splitlines():
                    if re.search(r"dbg-attach|dbg-broker|dbg_agent", line):
                        yield page, line


def test_each_command_is_run_here_or_elsewhere() -> None:
    left = {(str(page.relative_to(ROOT)), line) for page, line in commands() if line not in IN_A_HANG}
    assert {one for one in left if not any(re.fullmatch(form, one[1]) for form in ELSEWHERE)} == set()


def test_no_command_is_listed_that_no_page_shows() -> None:
    shown = {line for _, line in commands()}
    assert set(IN_A_HANG) - shown == set()
    assert {form for form in ELSEWHERE if not any(re.fullmatch(form, line) for line in shown)} == set()


def test_commands_do_what_the_page_says(processes: Processes, tmp_path: Path) -> None:
    stage = Stage(processes, SCENES["hang"], tmp_path)
    for command, prints in IN_A_HANG.items():
        printed = "\n".join(stage.play(Step(f"{command} || echo ended with status $?", ())))
        assert prints in printed, f"$ {command}\n{printed}"
        assert "ended with status" not in printed, f"$ {command}\n{printed}"
