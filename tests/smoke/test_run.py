"""``dbg-attach run``: one command from an edit to the prompt."""

from __future__ import annotations

import json
import re

from tests.support.runs import LINE, PYTHON, STATUS, STOP, Directory, go_through, text_of


def test_run_shows_the_prompt_without_a_key_and_returns_the_status(directory: Directory) -> None:
    terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
    go_through(terminal)
    assert terminal.exit_status() == STATUS
    shown = text_of(terminal)
    assert re.search(r"begins\n(.*\n)*total 0\ntotal 1\ntotal 3\nends", shown), shown
    (output,) = directory.outputs()
    assert str(output) in shown.replace("\n", "")
    assert "begins\n" in output.read_text()
    assert "ends\n" in output.read_text()


def test_run_returns_the_status_of_a_job_that_ends_before_any_stop(directory: Directory) -> None:
    directory.write("import sys\nprint('so far', flush=True)\nsys.exit('no good')\n")
    terminal = directory.run("--stop-at", "train.py:3", "--", "sh", "-c", "echo first; exit 5")
    assert terminal.exit_status() == 5
    assert "first" in text_of(terminal)
    terminal = directory.run(*PYTHON)
    assert terminal.exit_status() == 1
    assert re.search(r"so far\nno good", text_of(terminal))


def test_a_second_run_needs_no_key_and_uses_the_running_broker(directory: Directory) -> None:
    directory.environ = {"DBG_IDLE": "60"}
    first = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
    broker = json.loads((directory.home / "broker.json").read_text())["pid"]
    directory.attach("kill", "all", "-y")
    first.exit_status()
    terminal = directory.run_to_prompt(*STOP, *PYTHON, line=LINE)
    assert json.loads((directory.home / "broker.json").read_text())["pid"] == broker
    directory.attach("kill", "all", "-y")
    terminal.exit_status()
