"""What a guard takes from its rank, and gives back: faulthandler, a signal, a pipe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_agent.guard import rank_side
from dbg_agent.host.watched import WatchedProcess
from tests.conftest import Approved
from tests.support.time_unit import seconds

PRELUDE = """\
import faulthandler, fcntl, os, signal, sys, time
from dbg_agent.guard import rank_side
from dbg_agent import install, set_trace, uninstall

def guards():
    return [number for number in os.listdir("/proc") if number.isdigit() and is_ours(number)]

def is_ours(number):
    try:
        with open(f"/proc/{number}/environ", "rb") as file:
            ours = f"RANK_OF_TEST={os.getpid()}".encode() in file.read()
        with open(f"/proc/{number}/cmdline", "rb") as file:
            return ours and b"guard/process.py" in file.read()
    except OSError:
        return False

def catches(number):
    with open("/proc/self/status") as file:
        mask = next(line for line in file if line.startswith("SigCgt")).split()[1]
    return bool(int(mask, 16) >> (number - 1) & 1)

def pipe_end():
    # The descriptor that the rank's words for its guard go through.
    for number in map(int, os.listdir("/proc/self/fd")):
        if number >= rank_side.FIRST_DESCRIPTOR and os.path.exists(f"/proc/self/fd/{number}"):
            is_pipe = os.readlink(f"/proc/self/fd/{number}").startswith("pipe:")
            if is_pipe and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
                return number

def wait_until(so):
    while not so():
        time.sleep(0.01)

os.environ["RANK_OF_TEST"] = str(os.getpid())
os.environ["DBG_BROKER"] = "127.0.0.1:9#sha256:" + "0" * 64
os.environ["DBG_TOKEN"] = "a-token-that-nobody-asks-for"
"""


def run(script: str, *options: str, **env: str) -> list[str]:
    """Run a rank without a broker, and return the words that it prints."""
    ended = subprocess.run(
        [sys.executable, *options, "-c", PRELUDE + script],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(30),
        env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "DBG_CONNECT_TIMEOUT": "60", **env},
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout.split()


def test_uninstall_restores_everything_and_a_rank_has_only_one_guard() -> None:
    script = """\
install(); install()
print(faulthandler.is_enabled(), catches(signal.SIGSEGV), catches(rank_side.REQUEST_SIGNAL))
wait_until(guards)
print(len(guards()))
uninstall()
print(faulthandler.is_enabled(), catches(signal.SIGSEGV), catches(rank_side.REQUEST_SIGNAL))
wait_until(lambda: not guards())
install()
wait_until(guards)
"""
    assert run(script) == ["True"] * 3 + ["1"] + ["False"] * 3


def test_a_forked_child_can_have_its_own_guard() -> None:
    # The script imports `logging` first: Python complains of a fork during another thread's import of it.
    script = """\
import logging
install()
wait_until(guards)
child = os.fork()
if child == 0:
    print(faulthandler.is_enabled(), catches(rank_side.REQUEST_SIGNAL), flush=True)
    os.environ["RANK_OF_TEST"] = str(os.getpid())
    install()
    wait_until(guards)
    print(faulthandler.is_enabled(), catches(rank_side.REQUEST_SIGNAL), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(len(guards()) == 1)
"""
    # Python from 3.12 on warns of every fork of a process with threads.
    assert run(script, "-W", "ignore::DeprecationWarning") == ["False", "False", "True", "True", "True"]


ADOPTING = """\
import ctypes, os, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
subprocess.run([sys.executable, "-W", "ignore", "-c", sys.argv[1]], stderr=subprocess.DEVNULL)
try:
    print("left", os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("nothing left")
"""
"""Runs a program as process 1 of a container does: orphans become its children, and it waits for none of them."""


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "1 / 0",
        "uninstall()",
        "import multiprocessing; c = multiprocessing.get_context('fork').Process(target=print); c.start(); c.join()",
        "import subprocess; subprocess.run(['true'], preexec_fn=os.getpid)",
    ],
    ids=["end", "exception", "uninstall", "multiprocessing", "preexec_fn"],
)
def test_a_rank_that_ends_leaves_no_process_behind(ending: str) -> None:
    script = PRELUDE + f"install()\nwait_until(guards)\n{ending}\n"
    ended = subprocess.run(
        [sys.executable, "-c", ADOPTING, script], capture_output=True, text=True, check=True, timeout=seconds(30)
    )
    assert ended.stdout.splitlines()[-1] == "nothing left"


def test_a_program_that_forks_can_wait_only_for_its_own_children() -> None:
    script = """\
install()
wait_until(guards)
child = os.fork()
if child == 0:
    os._exit(0)
print(os.wait() == (child, 0), len(guards()))
try:
    os.wait()
except ChildProcessError:
    print("none")
"""
    assert run(script, "-W", "ignore::DeprecationWarning") == ["True", "1", "none"]


def test_a_crash_during_interpreter_exit_is_printed() -> None:
    script = """\
import atexit, ctypes
atexit.register(lambda: ctypes.string_at(0))
install()
"""
    ended = subprocess.run(
        [sys.executable, "-c", PRELUDE + script], capture_output=True, text=True, check=False, timeout=seconds(30)
    )
    assert ended.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in ended.stderr


@pytest.mark.parametrize("how", ["install(guard=False)", "os.environ['DBG_GUARD'] = '0'; install()", "0"])
def test_a_guard_is_started_only_when_requested(how: str) -> None:
    script = f"{how}\nprint(faulthandler.is_enabled(), catches(rank_side.REQUEST_SIGNAL), guards())\n"
    assert run(script) == ["False", "False", "[]"]


def test_faulthandler_enabled_by_the_program_is_left_alone() -> None:
    script = """\
for _ in range(2):
    install()
    print(faulthandler.is_enabled())
    uninstall()
    print(faulthandler.is_enabled())
faulthandler.disable()
install()
faulthandler.enable(open(os.devnull, "w"))
uninstall()
print(faulthandler.is_enabled())
"""
    assert run(script, "-X", "faulthandler") == ["True"] * 5


def test_a_signal_that_the_program_uses_is_left_alone() -> None:
    script = """\
signal.signal(rank_side.REQUEST_SIGNAL, lambda *_: print("mine"))
install()
signal.raise_signal(rank_side.REQUEST_SIGNAL)
uninstall()
signal.raise_signal(rank_side.REQUEST_SIGNAL)
"""
    assert run(script) == ["mine", "mine"]


def test_a_file_that_reuses_the_descriptor_of_the_pipe_is_neither_written_nor_closed() -> None:
    script = """\
rank_side.BEAT_SECONDS = 3600.0
file = os.open("/dev/null", os.O_WRONLY)
install()
number = pipe_end()
os.dup2(file, number)
uninstall()
os.fstat(number)
os.close(number)
rank_side.BEAT_SECONDS = 0.05
install()
number = pipe_end()
os.dup2(file, number)
wait_until(lambda: not faulthandler.is_enabled() and not catches(rank_side.REQUEST_SIGNAL))
os.fstat(number)
"""
    assert run(script) == []


def test_a_rank_with_default_sigpipe_survives_the_end_of_its_guard() -> None:
    script = """\
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
install()
wait_until(guards)
os.kill(int(guards()[0]), signal.SIGKILL)
wait_until(lambda: not guards())
for _ in range(2000):
    faulthandler.dump_traceback(pipe_end())
print("alive")
"""
    assert run(script) == ["alive"]


def test_a_guard_that_cannot_start_is_reported_once(approved: Approved) -> None:
    script = "sys.executable = '/nowhere/python'\ninstall(); install()\nprint(faulthandler.is_enabled())\n"
    ended = subprocess.run(
        [sys.executable, "-c", PRELUDE + script], capture_output=True, text=True, check=True, timeout=seconds(30)
    )
    assert ended.stdout == "False\n"
    assert ended.stderr.count("\n") == 1
    approved(ended.stderr)


@pytest.fixture
def child() -> Iterator[int]:
    """A process that waits for a signal, and is reaped in the end."""
    started = subprocess.Popen([sys.executable, "-c", "import signal; print(flush=True); signal.pause()"], stdout=-1)
    assert started.stdout is not None
    started.stdout.readline()
    yield started.pid
    started.kill()
    started.wait()
    started.stdout.close()


@pytest.mark.parametrize("reaped", [False, True])
def test_the_signal_that_ended_a_process_is_returned(child: int, reaped: bool) -> None:
    process = WatchedProcess(child)
    assert process.is_alive()
    os.kill(child, signal.SIGKILL)
    assert not process.is_alive(seconds(5))
    if reaped:
        os.waitpid(child, 0)
    status = process.status()
    if reaped and status is None:
        pytest.skip("this kernel forgets how a process ended when it has been waited for")
    assert status == signal.SIGKILL


def test_suspension_and_end_of_a_process_are_detected_also_without_a_pidfd(child: int) -> None:
    process = WatchedProcess(child)
    assert not process.is_suspended()
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    assert process.is_suspended()
    os.close(process.descriptor)
    process.descriptor = -1
    assert process.is_alive()
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive()
    assert process.status() == signal.SIGKILL


def test_modules_of_the_guard_are_loaded_once(tmp_path: Path) -> None:
    package = tmp_path / "dbg_agent"
    guard_folder = package / "guard"
    guard_folder.mkdir(parents=True)
    (package / "__init__.py").touch()
    (guard_folder / "__init__.py").touch()
    (guard_folder / "reporting.py").write_text(
        "from dbg_agent.host.watched import WatchedProcess\n"
        "class GuardReporter:\n"
        "    def __init__(self, about, process, beat_at): print(type(process) is WatchedProcess)\n"
        "    def run(self, messages, is_called): pass\n"
    )
    (package / "host").mkdir()
    (package / "host/__init__.py").touch()
    for name in ("guard/process.py", "host/watched.py", "host/proc.py"):
        (package / name).write_bytes((Path(rank_side.SCRIPT).parents[1] / name).read_bytes())
    data = f'{os.getpid()} 10 {{"path": ["{tmp_path}"]}}\nFatal Python error: Aborted\n'
    command = [sys.executable, "-I", "-S", "-B", str(guard_folder / "process.py")]
    result = subprocess.run(command, input=data, capture_output=True, text=True, check=True)
    assert result.stdout == "True\n"
