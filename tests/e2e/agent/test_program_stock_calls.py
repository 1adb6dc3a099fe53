"""Stock calls that a program has already go to the agent, until they are restored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SECONDS = 30


def test_redirecting_imports_no_debugger_and_pudb_follows(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from dbg_agent.program import stock_calls\n"
        "asked = []\n"
        "stock_calls.stop_at = lambda frame, *_: asked.append(frame.f_lineno)\n"
        "stock_calls.redirect()\n"
        "assert not {'pudb', 'remote_pdb', 'pdb', 'importlib.abc'} & set(sys.modules), sys.modules.keys()\n"
        "from pudb.remote import set_trace\n"
        "set_trace(host='10.0.0.1', port=6899, term_size=(240, 72), reverse=True)\n"
        "set_trace(port=6899)\n"
        "assert asked == [8, 9], asked\n"
    )
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
