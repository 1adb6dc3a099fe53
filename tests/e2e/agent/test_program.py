"""``python -m dbg_agent``: a program runs as it would by itself; importing the public names costs next to nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Approved
from tests.support.processes import Processes
from tests.support.time_unit import seconds


def run(*arguments: str, directory: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, where no broker is and none is waited for."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env={**os.environ, "DBG_HOME": str(directory), "DBG_CONNECT_TIMEOUT": "0.1", **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(
        "import json, sys, __main__\n"
        "class Model: pass\n"
        "print(json.dumps([__name__, __file__, sys.argv, sys.path[0], __main__.Model is Model,"
        " Model.__module__, __spec__ is None, sorted(n for n in dir() if not n.startswith('__'))]))\n"
    )
    return path


@pytest.mark.parametrize("program", [["train.py"], ["-m", "recipe"]])
def test_a_program_sees_the_same_as_without_the_agent(script: Path, tmp_path: Path, program: list[str]) -> None:
    if program[0] == "-m":
        text = script.read_text().replace(", __spec__ is None", "").replace("__main__.Model is Model", "True")
        script.with_name("recipe.py").write_text(text)
    alone = run(*program, "--lr", "-m", directory=tmp_path)
    ours = run("-m", "dbg_agent", *program, "--lr", "-m", directory=tmp_path)
    assert ours.returncode == 0, ours.stderr
    assert json.loads(ours.stdout) == json.loads(alone.stdout)


@pytest.mark.parametrize(("last_line", "status"), [("sys.exit(3)", 3), ("sys.exit('no')", 1), ("sys.exit()", 0)])
def test_the_exit_status_is_that_of_the_program(tmp_path: Path, last_line: str, status: int) -> None:
    (tmp_path / "train.py").write_text(f"import sys\nbreakpoint()\n{last_line}\n")
    assert run("-m", "dbg_agent", "train.py", directory=tmp_path).returncode == status


def test_a_traceback_shows_no_frame_of_the_agent(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def step():\n    1 / 0\nstep()\n")
    alone = run("train.py", directory=tmp_path)
    ours = run("-m", "dbg_agent", "train.py", directory=tmp_path)
    assert (ours.returncode, "ZeroDivisionError" in ours.stderr) == (1, True)
    # Where the program lives for 0.1 s, the rank reports that it has found no broker.
    shown = [line for line in ours.stderr.splitlines() if not line.startswith("dbg-agent: ")]
    assert shown == alone.stderr.splitlines()


def test_breakpoint_calls_the_agent_while_it_is_installed(approved: Approved, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import sys, dbg_agent\nbefore = sys.breakpointhook\ndbg_agent.install()\n"
        "assert sys.breakpointhook is dbg_agent.set_trace\nbreakpoint()\n"
        "dbg_agent.uninstall()\nassert sys.breakpointhook is before\n"
        "dbg_agent.install(classic=False)\nassert sys.breakpointhook is before\n"
    )
    ended = run("train.py", directory=tmp_path, DBG_CONNECT_TIMEOUT="1")
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    approved(ended.stderr)


@pytest.mark.parametrize("command", [["-m", "dbg_agent", "train.py"], ["train.py"]], ids=["dbg_agent", "run"])
def test_a_program_begins_after_the_modules_of_the_connection_are_imported(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint(sorted({'asyncio', 'dbg_dial.dial'} & {*sys.modules}))\n")
    ended = run(*command, directory=tmp_path, DBG_AUTOSTART=str(os.getpid()))
    assert (ended.returncode, ended.stdout) == (0, "['asyncio', 'dbg_dial.dial']\n")


def test_a_stop_during_the_setup_of_another_is_skipped(approved: Approved, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import dbg_agent\n"
        "from dbg_agent.program import own_rank\n"
        "make = own_rank.Rank\n"
        "def interrupted(*arguments):\n"
        "    dbg_agent.set_trace()  # as by a signal handler\n"
        "    return make(*arguments)\n"
        "own_rank.Rank = interrupted\n"
        "dbg_agent.set_trace()\n"
        "print('went on')\n"
    )
    ended = run("train.py", directory=tmp_path, DBG_CONNECT_TIMEOUT="1")
    assert (ended.returncode, ended.stdout) == (0, "went on\n")
    inner, outer = ended.stderr.splitlines()
    approved(inner)
    approved(outer, "2")


ALL_STOPS = """
import signal, sys
from {early} import set_trace as early
from dbg_agent.program import entry, stock_calls

asked = []
entry.stop_at = lambda frame, *_, **_how: asked.append(frame.f_lineno)
entry.keep_here = lambda error, *_: asked.append(error.__traceback__.tb_lineno)
loaded = set(sys.modules)
stock_calls.redirect()
assert not ({{"pudb", "remote_pdb", "ipdb", "importlib.abc"}} & set(sys.modules)) - loaded

def train():
    early()  # stop
    breakpoint()  # stop
    sys.__breakpointhook__()  # stop
    import pdb
    pdb.set_trace(header="look")  # stop
    pdb.Pdb().set_trace()  # stop
    ForkedPdb().set_trace()  # stop
    import pudb
    pudb.set_trace()  # stop
    pudb.set_trace(paused=False)
    pu.db  # stop
    import pudb.b  # stop
    import pudb.forked
    pudb.forked.set_trace()  # stop
    from pudb.remote import set_trace
    set_trace(host="10.0.0.1", port=6899, term_size=(240, 72), reverse=True)  # stop
    import remote_pdb
    remote_pdb.set_trace("10.0.0.1", 4444)  # stop
    remote_pdb.RemotePdb("10.0.0.1", 4444).set_trace()  # stop
    import ipdb
    ipdb.set_trace(cond=False)
    ipdb.set_trace()  # stop
    from IPython.core.debugger import set_trace
    set_trace()  # stop
    try:
        1 / 0  # stop stop stop stop stop
    except ZeroDivisionError:
        pdb.post_mortem()
        pudb.post_mortem()
        ipdb.post_mortem()
        pdb.post_mortem(sys.exc_info()[2])
        pudb.remote.post_mortem(host="10.0.0.1", reverse=True)

async def coroutine():
    import pdb
    await pdb.set_trace_async()  # await

import pdb

class ForkedPdb(pdb.Pdb):
    def interaction(self, *args, **kwargs):
        with open("/dev/stdin") as sys.stdin:
            pdb.Pdb.interaction(self, *args, **kwargs)

train()
if sys.version_info >= (3, 14):
    import asyncio
    asyncio.run(coroutine())
assert sys.gettrace() is None
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print(*asked)
"""


@pytest.mark.parametrize("early", ["pdb", "pudb", "ipdb", "remote_pdb", "pudb.remote"])
def test_each_stop_in_the_code_stops_at_its_own_line(tmp_path: Path, early: str) -> None:
    source = ALL_STOPS.format(early=early)
    (tmp_path / "train.py").write_text(source)
    done = run("train.py", directory=tmp_path, HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    expected = [
        number
        for number, line in enumerate(source.splitlines(), 1)
        for mark in line.partition("# ")[2].split()
        if mark == "stop" or sys.version_info >= (3, 14)
    ]
    assert [int(line) for line in done.stdout.splitlines()[-1].split()] == expected


TRACED_AFTERWARDS = """
import sys, threading
from dbg_agent.stop.interruptible import Interruptible

def work():
    interruptible = Interruptible(lambda seconds, call: None)
    try:
        with interruptible.running() as ticket:
            interrupting = threading.Thread(target=interruptible.interrupt, args=(ticket,))
            interrupting.start()
            interrupting.join()
    except KeyboardInterrupt:
        print("interrupted")

thread = threading.Thread(target=work)
thread.start()
thread.join()
sys.settrace(lambda *event: None)
(lambda: print("called"))()
"""


def test_a_traced_call_begins_after_a_cancelled_interrupt() -> None:
    # A separate process: a mark that an interrupt leaves in the interpreter would keep the call from ever beginning.
    command = [sys.executable, "-c", TRACED_AFTERWARDS]
    ended = subprocess.run(command, capture_output=True, check=True, text=True, timeout=20)
    assert (ended.stdout, ended.stderr) == ("interrupted\ncalled\n", "")


HEAD = """\
import atexit, functools, multiprocessing, os, sys, threading
from dbg_agent.frames.stacks import is_at_end
def report(*_arguments):
    print(is_at_end(sys._getframe()), flush=True)
class Hook:
    def __call__(self, *_arguments): report()
    def method(self, *_arguments): report()
def inner():
    report()
report(); inner()
"""


@pytest.mark.parametrize(
    ("program", "is_at_end"),
    [
        ("sys.excepthook = report; 1 / 0", True),
        ("sys.excepthook = lambda *_: inner(); 1 / 0", True),
        ("sys.excepthook = Hook(); 1 / 0", True),
        ("sys.excepthook = functools.partial(Hook().method, 1); 1 / 0", True),
        ("atexit.register(inner); sys.exit(3)", True),
        ("threading._register_atexit(inner)", True),
        ("keeps = type('Keeps', (), {'__del__': report})(); sys.modules['keeps'] = keeps", True),
        ("multiprocessing.util.Finalize(None, report, exitpriority=1)", True),
        ("try: 1 / 0\nexcept ZeroDivisionError: report()", False),
        ("os.fork() or inner()", False),
    ],
)
def test_a_frame_of_the_interpreter_exit_is_recognized(program: str, is_at_end: bool) -> None:
    result = subprocess.run(
        [sys.executable, "-c", f"{HEAD}import multiprocessing.util\n{program}\n"],
        capture_output=True,
        text=True,
        timeout=seconds(30),
        check=False,
    )
    assert result.stdout.split() == ["False", "False", str(is_at_end)], result.stderr


LOOKS_AND_COLLECTS = """\
import gc, threading, time
from dbg_agent.frames.stacks import all_frames

class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        time.sleep(0.001)

def start_threads():
    while True:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

for _ in range(3):
    threading.Thread(target=start_threads, daemon=True).start()
gc.set_threshold(1)
for _ in range(300):
    Cycle()
    assert len(all_frames()) > 1
print("collects", gc.isenabled())
"""
"""Each allocation begins a collection, each collection lets other threads run, and threads start and end all the time.
Two looks by `sys._current_frames` alone are enough to stop Python 3.11.7 for ever."""


def test_threads_that_start_and_end_during_garbage_collection_cause_no_deadlock(processes: Processes) -> None:
    program = processes.start("program", [sys.executable, "-c", LOOKS_AND_COLLECTS])
    assert program.wait(seconds(30)) == 0
    assert program.text() == "collects True\n"


PROBE = """\
import sys
from dbg_agent.frames.stacks import stack_of
from tests.unit.agent.pdb_driver import Driver, play
from tests.unit.agent.pudb_viewer import Viewer
from tests.unit.agent.pudb_viewer import play as play_in_pudb

print("where", stack_of(sys._getframe())[0].file)

driver = Driver()

def type_in_pdb():
    print("pdb", driver.output_of("w").splitlines()[0])
    driver.reply("c")

play(driver, type_in_pdb)
viewer = Viewer()

def type_in_pudb():
    viewer.opens()
    print("pudb", viewer.rank.debuggers.last.stack[0][0].f_code.co_filename)
    viewer.type(b"c")

play_in_pudb(viewer, type_in_pudb)
"""


def test_where_pdb_and_pudb_show_no_frame_of_the_runner_below_a_module(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    root = Path(__file__).parents[4]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{root}", "HOME": str(tmp_path)}
    run = [sys.executable, "-m", "probe"]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True, timeout=seconds(60))
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert {name: Path(where.partition("(")[0]).name for name, where in lines.items()} == dict.fromkeys(
        ("where", "pdb", "pudb"), "probe.py"
    )
