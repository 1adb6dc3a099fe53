"""Completion in real shells, and how long a Tab may take."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from dbg_client.command_line.main import main
from dbg_wire.messages import Action, Kind, Question, RankAnswer
from dbg_wire.records.ranks import Place, RankState
from tests.conftest import Approved
from tests.support.reach import PIN
from tests.support.requirements import needs_shells
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import HERE, FakeBroker, make_rank

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


def command(*words: str) -> list[str]:
    """Return the command with these words."""
    return [sys.executable, "-m", "dbg_client", *words]


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
        yield {**environ, **broker.environment, "PATH": path}


def test_completion_does_not_wait_for_a_broker_that_hangs(environ: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        environ |= {"DBG_BROKER": f"127.0.0.1:{listener.getsockname()[1]}#{PIN}", "DBG_TOKEN": "0" * 16}
        began = time.monotonic()
        assert asked(environ, "whe")[0].startswith("where\t")
        assert time.monotonic() - began < seconds(20)


def test_completion_ends_with_the_known_words_when_a_call_hangs(environ: dict[str, str], tmp_path: Path) -> None:
    script = (
        "import dbg_client.command_line.completion as live, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n"
        "live.live_ranks = lambda environ: signal.sigwait([signal.SIGALRM])\n"
        "from dbg_client.command_line.completion import complete\n"
        "sys.exit(complete(['whe']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("where\t")


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
            ("\x15dbg-attach eval gpu013:5 x --li\t", "dbg-attach eval gpu013:5 x --live"),
            ("\x15dbg-attach gpu013:5 -x answ\t", "-x answers.json"),
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


def ended(
    environ: dict[str, str], *words: str, stdout: int | IO[str] = subprocess.PIPE, encoding: str = "utf-8"
) -> subprocess.CompletedProcess[str]:
    """Run the command with this stdout, and return how it ended."""
    return subprocess.run(
        [sys.executable, "-m", "dbg_client", *words],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding=encoding,
        env=environ,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--watch", "--take", "5"],
        ["screen"],
        ["list", "gpu[1"],
        ["list", "--broker", "http://x"],
        ["5"],
        [],
    ],
)
def test_bad_usage_is_one_sentence_and_status_2(approved: Approved, words: list[str], environ: dict[str, str]) -> None:
    done = ended(environ, *words)

    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("dbg-attach: ")
    approved(line)


def test_a_bug_is_one_line_and_a_traceback_only_with_v(
    approved: Approved, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(settings: object) -> int:
        raise ValueError("\x1b[31m")

    monkeypatch.setattr("dbg_client.command_line.main.carry_out", broken)

    assert main(["list"]) == 1
    approved(capsys.readouterr().err)
    assert main(["list", "-v"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(settings: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("dbg_client.command_line.main.carry_out", interrupted)

    assert main(["list"]) == 130


@pytest.mark.parametrize("words", [["list"], ["--help"]])
def test_a_full_disk_is_one_sentence_and_status_1(words: list[str], environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5)) as broker, Path("/dev/full").open("w") as full:
        done = ended({**environ, **broker.environment}, *words, stdout=full)

    reason = "the answer can't be written to stdout (No space left on device); redirect stdout to another file"
    assert (done.returncode, done.stderr) == (1, f"dbg-attach: {reason}\n")


@pytest.mark.parametrize("words", [["--help"], ["list"]])
def test_a_closed_pipe_ends_the_command_silently(words: list[str], environ: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with FakeBroker(make_rank(5)) as broker, os.fdopen(writing, "w") as pipe:
        done = ended({**environ, **broker.environment}, *words, stdout=pipe)

    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("closed", [0, 1])
def test_a_closed_stream_is_not_reported_as_a_bug(approved: Approved, closed: int, environ: dict[str, str]) -> None:
    script = f'exec "$0" -m dbg_client list {closed}>&-'
    with FakeBroker(make_rank(5)) as broker:
        done = subprocess.run(
            ["sh", "-c", script, sys.executable],
            env={**environ, **broker.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds(30),
        )

    if closed:
        assert (done.returncode, done.stdout) == (1, "")
        approved(done.stderr)
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert "gpu013:5" in done.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_the_encoding_lacks_are_printed_as_escapes(encoding: str, environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), make_rank(6, directory="/é")) as broker:
        broker.answers[Action.WHERE] = RankAnswer(
            key="", kind=Kind.VALUE, text="", frames=(HERE, Place(file="/é.py", line=1, function="\u4e2d"))
        )
        done = ended({**environ, **broker.environment, "PYTHONIOENCODING": encoding}, "where", encoding=encoding)

    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u4e2d \\xe9.py:1" in done.stdout if encoding == "ascii" else "\\u4e2d é.py:1" in done.stdout


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_without_a_cursor_is_refused_with_a_remedy(
    approved: Approved, term: str, environ: dict[str, str]
) -> None:
    with FakeBroker(make_rank(5)) as broker:
        for words in ([], ["5"]):
            command = [sys.executable, "-m", "dbg_client", *words]
            with Terminal(command, 24, 200, {**environ, **broker.environment, "TERM": term}) as window:
                assert window.exit_status() == 2
                shown = "\n".join(window.screen).strip()
                approved(shown)
                assert "set it, e.g. TERM=xterm-256color" in shown


@pytest.mark.parametrize("words", [["kill", "5"], ["interrupt", "all"]])
@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("\r", 1), ("\x03", 130)])
def test_ending_a_rank_or_stopping_several_asks_for_confirmation(
    words: list[str], answer: str, status: int, environ: dict[str, str]
) -> None:
    with FakeBroker(make_rank(5), RUNNING, make_rank(7, state=RankState.UNRESPONSIVE)) as broker:
        with Terminal(command(*words), 24, 80, {**environ, **broker.environment}) as window:
            window.wait_for("[y/N]")
            window.send(answer)
            assert window.exit_status() == status
        assert any(isinstance(item, Question) for item in broker.received) == (status == 0)
