"""After a stop everything in the rank is as it was before, and nothing was written anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb, wait_for_line
from tests.support.ranks import start_ranks, wait_until_stopped

SCRIPT = """\
import builtins, json, locale, os, signal, sys, tempfile, threading, warnings
from dbg_agent import set_trace

def state():
    names = [name for name in dir(signal) if name.startswith("SIG") and not name.startswith("SIG_")]
    handlers = {name: repr(signal.getsignal(getattr(signal, name))) for name in names}
    return {
        "trace": repr(sys.gettrace()),
        "threads' trace": repr(threading.gettrace()),
        "profile": repr(sys.getprofile()),
        "signal handlers": handlers,
        "signal mask": repr(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))),
        "streams": [id(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "hooks": [id(hook) for hook in (sys.excepthook, threading.excepthook, sys.displayhook, sys.breakpointhook)],
        "warnings": repr(warnings.filters) + repr(warnings.showwarning),
        "builtins": sorted(vars(builtins)),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "path": list(sys.path),
        "finders": [id(finder) for finder in sys.meta_path],
        "locale": locale.setlocale(locale.LC_ALL),
        "umask": os.umask(0o22),
        "temporary files": sorted(os.listdir(tempfile.gettempdir())),
        "recursion limit": sys.getrecursionlimit(),
    }

def stop():
    here = 1
    set_trace()
    here += 1
    here += 1
    return here

sys.gettrace()
before = state()
stop()
print("STATES", json.dumps([before, state()]), flush=True)
"""

STOP = SCRIPT.splitlines().index("    set_trace()") + 1
"""Line of the call."""


def states_around_a_stop(
    processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path, keys: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the state of a rank before and after stops at successive lines; at each, one of ``keys`` is typed."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, SCRIPT, 1, env={"TMPDIR": str(temporary), "TERM": "dumb"})
    wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, "0")
    for line, typed in enumerate(keys, STOP):
        wait_for_line(terminal, line)
        terminal.send(typed)
    states = rank.wait_for_output(r"STATES (.*)\n")[1]
    assert rank.wait() == 0
    before, after = json.loads(states)
    assert terminal.exit_status() == 7
    return before, after


@pytest.mark.parametrize("keys", [["c"], ["jbc", "bc"]], ids=["continue", "breakpoint"])
def test_a_stop_leaves_the_rank_unchanged(
    processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path, keys: Sequence[str]
) -> None:
    before, after = states_around_a_stop(processes, home, open_terminal, tmp_path, keys)
    assert after == before
    assert before["trace"] == "None"
    written = [path for path in (home / "homes").rglob("*") if path.is_file()]
    assert written == [], "files in the rank's home"


def test_the_import_loads_no_other_module(tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); import dbg_agent; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert loaded.stdout.split() == ["__future__", "dbg_agent"]


def test_a_rank_that_never_stops_starts_no_thread(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = "import threading, dbg_agent\nprint('THREADS', threading.active_count())\n"
    (rank,) = start_ranks(processes, home, script, 1)
    assert rank.wait_for_output(r"THREADS (\d+)\n")[1] == "1"
    assert rank.wait() == 0
    assert os.listdir(home / "homes" / "rank0") == []  # noqa: PTH208
