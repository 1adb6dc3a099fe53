"""``dbg-attach run``: one command from an edit to the prompt, which leaves alone what is not its own."""

from __future__ import annotations

import re
import subprocess
import sys

from dbg_client.run.job import COMES_BACK
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import attach_list
from tests.support.runs import (
    LINE,
    PYTHON,
    STATUS,
    STOP,
    Directory,
    text_of,
    wait_for_prompt,
)
from tests.support.sessions import DETACH
from tests.support.time_unit import seconds


def test_output_and_status_are_passed_on_without_a_terminal(directory: Directory) -> None:
    result = subprocess.run(
        directory.command("--", sys.executable, "train.py"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env=directory.processes.marked(directory.variables),
        timeout=seconds(30),
    )
    assert result.returncode == STATUS
    assert result.stdout == b"begins\ntotal 0\ntotal 1\ntotal 3\nends\n"
    assert b"dbg-attach --follow train-" in result.stderr


def test_a_detach_keeps_the_job_and_enter_reattaches(directory: Directory) -> None:
    terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
    terminal.send(DETACH)
    terminal.wait_for(COMES_BACK)
    assert [rank["state"] for rank in attach_list(directory.home)] == ["stopped"]
    terminal.send("\r")
    terminal.wait_for(DRAWN)
    terminal.send(DETACH)
    terminal.wait_for(lambda seen: text_of(seen).count(COMES_BACK) == 2)
    directory.attach("continue", "all")
    wait_for_prompt(terminal, LINE)
    terminal.wait_for(re.compile(r"step: 1\b"))
    directory.attach("kill", "all", "-y")
    terminal.exit_status()
