"""Bad input of a user or a peer is answered with one sentence that shows no secret and does no harm."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.smoke.test_bad_input import check
from tests.support.broker import RunningBroker
from tests.support.processes import Processes
from tests.support.ranks import attach_command, attach_list, start_ranks, wait_until_stopped
from tests.support.reach import PIN
from tests.support.sentence import SECRET, check_sentence

STOPS = """\
from dbg_agent import set_trace
set_trace()
"""


def test_each_error_with_a_broker_and_two_jobs_has_its_exit_status(
    broker: RunningBroker, processes: Processes, home: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        start_ranks(processes, home, STOPS, 1)
    job = wait_until_stopped(home, 2)[0]["job"]
    port = str(broker.port)
    serve = [sys.executable, "-m", "dbg_broker", "serve", "--listen"]
    cases: Sequence[tuple[Sequence[str], int, str, Mapping[str, str]]] = [
        (attach_command("screen", "7"), 3, "7", {}),
        (attach_command("screen", "0"), 2, job, {}),
        (attach_command("kill", f"{job}/0"), 2, "-y", {}),
        (attach_command("list"), 5, port, {"DBG_TOKEN": SECRET}),
        (attach_command("list"), 5, port, {"DBG_TOKEN": broker.tokens["rank"]}),
        (attach_command("continue", f"{job}/0"), 5, "", {"DBG_TOKEN": broker.tokens["watcher"]}),
        (attach_command("list", f"--broker=127.0.0.1:{port}#{PIN}"), 5, port, {}),
        ([*serve, f"127.0.0.1:{port}", "--home", str(tmp_path / "home")], 1, port, {}),
        ([*serve, "127.0.0.1:0"], 10, port, {}),
    ]
    for command, status, text, env in cases:
        check(command, status, (SECRET, *broker.tokens.values()), text, **env)
    assert [rank["state"] for rank in attach_list(home)] == ["stopped"] * 2


def test_a_token_in_an_address_is_not_printed(home: Path) -> None:
    for address in (f"login1:6900?token={SECRET}", f"me:{SECRET}@login1:6900"):
        check(attach_command("list", f"--broker={address}"), 2, text="DBG_TOKEN_FILE")


def test_attaching_with_stdout_in_a_pipe_is_refused(home: Path, open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(["sh", "-c", '"$0" 0 | cat', *attach_command()], cols=200, env=dict(os.environ))
    assert terminal.exit_status() == 0
    check_sentence(terminal.row(0) + "\n", "stdout")
