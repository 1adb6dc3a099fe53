"""A forked command is a process like one that was started: its own output, environment, status, and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dbg_wire.version import RELEASE
from tests.conftest import OpenTerminal
from tests.support.forked import ForkServer, end_fork_servers, fork_server, forkable, forkable_script, run
from tests.support.processes import Processes
from tests.support.starting.script import may_become_script
from tests.support.time_unit import seconds

ATTACH = (sys.executable, "-m", "dbg_client")
BROKER = (sys.executable, "-m", "dbg_broker")


@pytest.fixture
def environ(home: Path) -> Mapping[str, str]:
    return {**os.environ, "DBG_HOME": str(home)}


def test_output_and_status_are_those_of_the_command(environ: Mapping[str, str]) -> None:
    done = run([*BROKER, "--version"], environ, seconds(30))
    assert (done.returncode, done.stderr) == (0, "")
    assert RELEASE in done.stdout
    done = run([*ATTACH, "--nonsense"], environ, seconds(30))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--nonsense" in done.stderr


def test_environment_and_directory_are_those_of_the_caller(
    environ: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run([*ATTACH, "list"], {**environ, "DBG_BROKER": "x:y"}, seconds(30))
    assert "DBG_BROKER 'x:y'" in done.stderr
    assert "no broker is known" in run([*ATTACH, "list"], environ, seconds(30)).stderr
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    done = run([*BROKER, "serve", "--home", "file"], environ, seconds(30))
    assert f"{tmp_path}/file is not a directory" in done.stderr


def test_what_exceeds_its_time_is_killed(environ: Mapping[str, str]) -> None:
    command = [*BROKER, "serve", "--listen", "127.0.0.1:0"]
    with pytest.raises(subprocess.TimeoutExpired):
        run(command, environ, 0.1)


def test_a_child_that_was_forked_is_followed_and_ended(environ: Mapping[str, str], tmp_path: Path) -> None:
    own = Processes(tmp_path / "logs")
    command = [*BROKER, "serve", "--listen", "127.0.0.1:0"]
    killed = own.start("one", command, env=environ)
    ended = own.start("two", [*command, "--home", str(tmp_path)], env=environ)
    for child in (killed, ended):
        child.wait_for_output(rf"pid {child.pid},")
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    own.end_all()
    assert ended.exit_status == 0
    assert not Path(f"/proc/{ended.pid}").exists()


def test_the_fork_server_outlives_the_test_that_starts_it(environ: Mapping[str, str], tmp_path: Path) -> None:
    end_fork_servers()
    for _ in range(2):
        own = Processes(tmp_path / "logs")
        assert own.start("refused", [*ATTACH, "--nonsense"], env=environ).wait() == 2
        own.end_all()


def test_commands_end_with_their_fork_server(environ: Mapping[str, str]) -> None:
    server = ForkServer(environ, "commands")
    reading, writing = os.pipe()
    with os.fdopen(reading) as output, os.fdopen(writing, "wb") as theirs:
        argv = ["dbg-broker", "serve", "--listen", "127.0.0.1:0"]
        command = server.start(argv, environ, theirs.fileno(), theirs.fileno())
        theirs.close()
        assert f"pid {command.pid}," in output.readline()
        server.end()
        # The broker held the other end of the pipe.
        output.read()


SEES = """\
import os, sys, threading
frame = sys._getframe()
print(__file__, frame.f_code.co_filename, frame.f_back, __spec__, sorted(globals()), threading.enumerate()[1:])
print(sys.argv, sys.orig_argv, sys.path, [name for name in sys.modules if name.startswith("tests")])
print(os.getcwd(), sys.stdout.line_buffering, sorted(os.listdir("/proc/self/fd")), os.getsid(0) == os.getpid())
print(open("/proc/self/cmdline").read(), sorted(open("/proc/self/environ").read().split(chr(0))), sorted(os.environ))
threading.Thread(target=lambda: print("waited for")).start()
import atexit; atexit.register(print, "at the end")
1 / 0
"""


@pytest.mark.skipif(not may_become_script(), reason="the kernel shows no fork with the command line of a start")
@pytest.mark.parametrize("typed", ["script.py", "./script.py", "../work/script.py", "{folder}/script.py"])
def test_a_script_sees_no_difference_between_a_fork_and_a_start(
    typed: str, environ: Mapping[str, str], processes: Processes, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "script.py").write_text(SEES)
    seen = []
    for name, signal_at_the_end in (("forked", "KILL"), ("started", "TERM")):
        command = [sys.executable, typed.format(folder=folder), "a", "b c"]
        child = processes.start(name, command, env=environ, cwd=folder, death_signal=signal_at_the_end)
        seen.append((child.wait(), child.text(), child.text("stderr")))
    forked, started = seen
    assert forked == started
    assert forked[0] == 1
    assert forked[1].endswith("waited for\nat the end\n")


def test_only_a_plain_start_of_a_script_is_forked(environ: Mapping[str, str]) -> None:
    if may_become_script():
        assert forkable_script([sys.executable, "a.py", "b"], environ) == ["a.py", "b"]
    assert forkable_script([sys.executable, "-u", "a.py"], environ) is None
    assert forkable_script([sys.executable, "-c", "print('a.py')"], environ) is None
    assert forkable_script(["sh", "a.py"], environ) is None
    assert forkable_script([sys.executable, "a.py"], {**environ, "PYTHONPATH": "/tmp"}) is None


def test_a_command_in_a_terminal_reads_from_it_and_writes_to_it(
    environ: Mapping[str, str], open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal([*ATTACH, "kill"], env=environ)
    assert terminal.exit_status() == 2
    assert "kill needs a target" in terminal.row(0)
    terminal = open_terminal([*BROKER, "serve", "--listen", "127.0.0.1:0"], cols=200, env=environ)
    terminal.wait_for(f"pid {terminal.pid},")
    terminal.send("\x03")
    assert terminal.exit_status() == 0
    # It is ended once more after the test.
    terminal.end()


def test_only_a_plain_start_of_a_command_is_forked(environ: Mapping[str, str]) -> None:
    assert forkable([*ATTACH, "list"], environ) == ["dbg-attach", "list"]
    assert forkable(["env", *ATTACH, "list"], environ) is None
    assert forkable([*BROKER, "run", "--", "true"], environ) is None
    assert forkable([*ATTACH, "list"], {**environ, "PYTHONPATH": "/tmp"}) is None
    assert forkable([*ATTACH, "list"], {**environ, "LC_ALL": "C"}) is None
    assert forkable([*ATTACH, "list"], {**environ, "DBG_AUTOSTART": "1"}) is None


def test_warnings_are_as_the_environment_says(environ: Mapping[str, str]) -> None:
    forked = forkable([*ATTACH, "list"], {**environ, "PYTHONWARNINGS": "error"})
    assert forked is not None
    assert fork_server({**environ, "PYTHONWARNINGS": "error"}, ATTACH) is not fork_server(environ, ATTACH)
    assert fork_server(environ, ["dbg-attach"]) is fork_server(environ, ["dbg-broker"])
    assert fork_server(environ, ["torch-job"]) is not fork_server(environ, ["dbg-broker"])
    assert fork_server(environ, ["a.py"]) is not fork_server(environ, ["dbg-broker"])
