"""A process finds an identity of its own in any environment, and neither stderr nor a log disturbs the training."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_agent.process.log import open_log
from dbg_agent.process.threads import BoundedThreads
from tests.support.time_unit import seconds
from tests.unit.agent.launch.test_this_process import KNOWN_VARIABLES
from tests.unit.agent.link.test_fork_safety import LONG
from tests.unit.agent.process.test_log import lines

PRINT_IDENTITY = (
    "import os, sys; from dbg_agent.launch.this_process import this_process; os.chdir('/'); i = this_process(); "
    "print(i.script, i.directory, i.launcher, i.rank, i.pid == os.getpid(), 'asyncio' in sys.modules)"
)


def ask_child(*arguments: str, directory: Path, **environ: str) -> list[str]:
    cleared = {name: value for name, value in os.environ.items() if name not in KNOWN_VARIABLES}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=directory, env=cleared | environ, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_a_process_finds_its_script_and_rank(tmp_path: Path) -> None:
    here = PRINT_IDENTITY.replace("os.chdir('/'); ", "")
    gone = tmp_path / "gone"
    for folder in ("gone", "app"):
        (tmp_path / folder).mkdir()
    (tmp_path / "fit.py").write_text(PRINT_IDENTITY)
    (tmp_path / "app" / "__main__.py").write_text(here)
    (tmp_path / "removes.py").write_text(f"import os; os.rmdir({str(gone)!r})\n{here}")

    assert ask_child("fit.py", directory=tmp_path) == [str(tmp_path / "fit.py"), "/", "none", "0", "True", "False"]
    assert ask_child("-c", PRINT_IDENTITY, directory=tmp_path, RANK="1", WORLD_SIZE="2")[2:4] == ["env", "1"]
    assert ask_child("-m", "fit", directory=tmp_path)[:2] == ["-m", "fit"]
    assert ask_child("app", directory=tmp_path)[:2] == [str(tmp_path / "app"), str(tmp_path)]
    script = str(tmp_path / "removes.py")
    assert ask_child(script, directory=gone) == [script, "none", "0", "True", "False"]


FORK_WHILE_DIALLING = """\
import os, sys, threading, time
import dbg_agent, dbg_agent.link.dialling, dbg_dial.dial

inside, forking = threading.Event(), threading.Event()
lock = threading.Lock()
def context(endpoint):
    # As OpenSSL: takes a lock of its own, Python's being free meanwhile.
    with lock:
        inside.set()
        forking.wait()
        time.sleep(0.1)
    raise OSError
dbg_dial.dial.client_context = context
dbg_agent.install(guard=False)
# Of two hooks the later one goes first.
os.register_at_fork(before=forking.set)
inside.wait()
child = os.fork()
if child == 0:
    os._exit(0 if lock.acquire(timeout=0) else 7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_forked_while_its_parent_connects_does_not_deadlock(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK_WHILE_DIALLING]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = f"127.0.0.1:{listener.getsockname()[1]}#sha256:" + "0" * 64
        environ = {**os.environ, "DBG_HOME": str(tmp_path), "DBG_BROKER": broker, "DBG_TOKEN": "t" * 43}
        result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LONG, check=False)
    assert (result.returncode, result.stderr) == (0, "")


FULL_PIPE = """\
import fcntl, os, sys
from dbg_agent.process.log import write_stderr
descriptor = sys.stderr.fileno()
flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK)
try:
    while True: os.write(descriptor, b"x" * 4096)
except BlockingIOError:
    pass
fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
for number in range(COUNT):
    write_stderr(f"line {number}")
print("went on", flush=True)
sys.stdin.readline()
import dbg_agent.process.log, time
while not dbg_agent.process.log.is_written(): time.sleep(0.01)
"""


@pytest.mark.parametrize("count", [1, 100])
def test_a_full_stderr_pipe_does_not_block_and_the_first_line_is_printed_later(count: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", FULL_PIPE.replace("COUNT", str(count))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "went on\n"
    _, errors = child.communicate("\n", timeout=seconds(20))
    printed = [line for line in errors.replace("x", "").splitlines() if line]
    assert printed == ["dbg-agent: line 0"]
    assert child.returncode == 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    threads, gate = BoundedThreads("dbg-agent-test", 1), threading.Event()
    assert threads.start(gate.wait)
    child = os.fork()
    if child == 0:
        os._exit(0 if threads.start(lambda: None) else 1)
    _, status = os.waitpid(child, 0)
    gate.set()
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """Leave this process without a log."""
    yield
    open_log({}, "?")


def test_a_descriptor_that_the_program_reuses_is_left_alone(tmp_path: Path) -> None:
    program = """
import os, sys
from dbg_agent.process.log import Logger, open_log
open_log({"DBG_LOG": sys.argv[1]}, "gpu013:5")
log = Logger("dbg_agent.test")
log.info("first")
os.closerange(3, 100)
taken = {os.open(sys.argv[2], os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600) for _ in range(90)}
log.info("second")
log.info("third")
"""
    paths = [str(tmp_path / name) for name in ("log", "own")]
    subprocess.run([sys.executable, "-c", program, *paths], check=True, timeout=seconds(20))
    assert [event for _, _, event in lines(tmp_path / "log")] == ["first", "second", "third"]
    assert (tmp_path / "own").read_text() == ""


def test_ranks_of_one_host_share_a_log_file(tmp_path: Path) -> None:
    program = """
import sys
from dbg_agent.process.log import Logger, open_log
open_log({"DBG_LOG": sys.argv[1]}, "gpu013:5")
for number in range(200): Logger("dbg_agent.test").debug("%d %s", number, "x" * 200)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    ranks = [subprocess.Popen(command) for _ in range(3)]
    assert [rank.wait(seconds(20)) for rank in ranks] == [0, 0, 0]
    assert len(lines(tmp_path / "log")) == 600


LAZY = """
from dbg_wire.codec import decode, encode
from dbg_wire.messages import Notice, Sender
assert decode(encode(Notice(text="x")), Sender.AGENT).text == "x"
"""


def test_messages_are_registered_when_all_imports_are_lazy() -> None:
    environ = {**os.environ, "PYTHON_LAZY_IMPORTS": "all"}
    assert subprocess.run([sys.executable, "-c", LAZY], env=environ, check=False, timeout=seconds(20)).returncode == 0
