"""A forked command is a process like one that was started: its own output, environment, status, and end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from dbg_wire.version import RELEASE
from tests.support.forked import ForkServer, run_forked
from tests.support.processes import Processes
from tests.support.time_unit import seconds


@pytest.fixture
def environ(home: Path) -> Mapping[str, str]:
    return {**os.environ, "DBG_HOME": str(home)}


def test_output_and_status_are_those_of_the_command(environ: Mapping[str, str]) -> None:
    done = run_forked(["dbg-broker", "--version"], environ, seconds(30))
    assert (done.returncode, done.stderr) == (0, "")
    assert RELEASE in done.stdout
    done = run_forked(["dbg-attach", "--nonsense"], environ, seconds(30))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--nonsense" in done.stderr


def test_environment_and_directory_are_those_of_the_caller(
    environ: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_forked(["dbg-attach", "-l"], {**environ, "DBG_BROKER": "x:y"}, seconds(30))
    assert "DBG_BROKER 'x:y'" in done.stderr
    assert "no broker is known" in run_forked(["dbg-attach", "-l"], environ, seconds(30)).stderr
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    done = run_forked(["dbg-broker", "serve", "--home", "file"], environ, seconds(30))
    assert f"{tmp_path}/file is not a directory" in done.stderr


def test_what_exceeds_its_time_is_killed(environ: Mapping[str, str]) -> None:
    command = ["dbg-broker", "serve", "--listen", "127.0.0.1:0"]
    with pytest.raises(subprocess.TimeoutExpired):
        run_forked(command, environ, 0.1)


def test_a_child_that_was_forked_is_followed_and_ended(environ: Mapping[str, str], tmp_path: Path) -> None:
    own = Processes(tmp_path / "logs")
    command = ["dbg-broker", "serve", "--listen", "127.0.0.1:0"]
    killed, ended = own.fork("one", command, environ), own.fork("two", [*command, "--home", str(tmp_path)], environ)
    for child in (killed, ended):
        child.wait_for_output(rf"pid {child.pid},")
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    own.end_all()
    assert ended.exit_status == 0
    assert not Path(f"/proc/{ended.pid}").exists()


def test_commands_end_with_their_fork_server(environ: Mapping[str, str]) -> None:
    server = ForkServer()
    reading, writing = os.pipe()
    with os.fdopen(reading) as output, os.fdopen(writing, "wb") as theirs:
        command = server.start(["dbg-broker", "serve", "--listen", "127.0.0.1:0"], environ, *[theirs.fileno()] * 2)
        theirs.close()
        assert f"pid {command.pid}," in output.readline()
        server.end()
        # The broker held the other end of the pipe.
        output.read()


def test_what_decides_the_start_of_an_interpreter_is_seen(environ: Mapping[str, str]) -> None:
    server = ForkServer()
    try:
        assert server.can_start(environ)
        assert not server.can_start({**environ, "PYTHONPATH": "/tmp"})
        assert not server.can_start({**environ, "LC_ALL": "C"})
    finally:
        server.end()
