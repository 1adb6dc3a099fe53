"""Completion in real shells, and how long a Tab may take."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_client.core.live_targets import SECONDS
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.full.terminals.test_actions_from_shell import command
from tests.support.requirements import needs_shells
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import FakeBroker, make_rank

RUNNING = make_rank(6, state=RankState.RUNNING, where=None, reason=None)

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'PS1="ready> "; eval "$(dbg-attach completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'PS1="ready> "; autoload -U compinit; compinit -u; eval "$(dbg-attach completion zsh)"',
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        "function fish_prompt; echo 'ready> '; end; dbg-attach completion fish | source",
    ),
}


def asked(environ: dict[str, str], *words: str) -> list[str]:
    done = subprocess.run(
        command("--complete", *words), env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture
def shell_environ(environ: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the environment of a shell that finds dbg-attach, beside a broker with two ranks."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/dbg-attach"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m dbg_client "$@"\n')
    script.chmod(0o755)
    (tmp_path / "answers.json").touch()
    with FakeBroker(make_rank(5), RUNNING) as broker:
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        yield {**environ, **broker.environment, SECONDS: "30", "PATH": path}


def test_verbs_ranks_and_groups_are_offered_with_what_they_mean(approved: Approved, environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), RUNNING) as broker:
        environ |= {**broker.environment, SECONDS: "30"}
        first, target = asked(environ, ""), asked(environ, "where", "gpu")

    approved(first)
    assert "gpu013:6\trunning" in first
    assert target == ["gpu013:5\tstopped train.py:41", "gpu013:6\trunning"]


def test_without_a_broker_verbs_and_options_are_there(environ: dict[str, str]) -> None:
    assert asked(environ, "whe")[0].startswith("where\t")
    assert asked(environ, "5", "-x", "") == [":files"]
    assert asked(environ, "eval", "all", "--st") == ["--stats\tfigures of tensors, e.g. min, max and NaN count"]


def test_a_broker_that_hangs_holds_up_nobody(environ: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        environ |= {"DBG_BROKER": f"ws://127.0.0.1:{listener.getsockname()[1]}", "DBG_TOKEN": "insecure-" + "0" * 16}
        began = time.monotonic()
        assert asked(environ, "whe")[0].startswith("where\t")
        assert time.monotonic() - began < seconds(20)


def test_a_call_that_hangs_ends_the_process_behind_what_is_known(environ: dict[str, str], tmp_path: Path) -> None:
    script = (
        "import dbg_client.core.live_targets as live, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n"
        "live.live_ranks = lambda environ: signal.sigwait([signal.SIGALRM])\n"
        "from dbg_client.cli.completion import complete\n"
        "sys.exit(complete(['whe']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("where\t")


def test_completing_loads_no_event_loop(environ: dict[str, str]) -> None:
    script = (
        "import sys\nfrom dbg_client.cli.main import main\nmain(['--complete', 'where', ''])\n"
        "print('heavy:', *sorted({'asyncio', 'websockets', 'prompt_toolkit'} & set(sys.modules)))\n"
    )
    with FakeBroker(make_rank(5)) as broker:
        environ |= {**broker.environment, SECONDS: "30"}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=True
        )

    assert "gpu013:5" in done.stdout
    assert done.stdout.splitlines()[-1].strip() == "heavy:"


@needs_shells
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_verbs_ranks_options_and_files(
    shell: str, shell_environ: dict[str, str], tmp_path: Path
) -> None:
    words, start = SHELLS[shell]
    with Terminal(words, rows=30, cols=100, env=shell_environ) as terminal:
        terminal.send(f"cd {tmp_path}; {start}; clear\n")
        for typed, completed in (
            ("dbg-attach wher\t", "dbg-attach where"),
            ("gpu013:6\t-", "dbg-attach where gpu013:6 -"),
            ("\x15dbg-attach eval gpu013:5 x --sta\t", "dbg-attach eval gpu013:5 x --stats"),
            ("--save answ\t", "--save answers.json"),
        ):
            terminal.send(typed)
            terminal.wait_for(completed)
        terminal.send("\x15dbg-attach eval all x --json\n")
        terminal.wait_for('"groups"')
        terminal.send("clear\n")
        terminal.wait_for(lambda it: "groups" not in "\n".join(it.screen))
        terminal.send("dbg-attach where @\t")
        terminal.wait_for("dbg-attach where @1")
        terminal.send("\x15dbg-attach where gpu\t")
        terminal.wait_for("where gpu013:")
