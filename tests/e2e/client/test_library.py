"""What ``import dbg_client`` offers to programs of users, and what its core must not use."""

from __future__ import annotations

import subprocess
import sys

from tests.unit.client.test_library import CORE, PACKAGE

TERMINAL = ("prompt_toolkit", "termios", "tty", "pty", "curses")


def test_nothing_is_loaded_before_it_is_used() -> None:
    script = "import sys, dbg_client; print(sorted(name for name in sys.modules if name.startswith('dbg_')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "['dbg_client']"


def test_the_core_loads_nothing_of_a_terminal() -> None:
    modules = [".".join(("dbg_client", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in CORE]
    script = (
        "import importlib, sys\n"
        f"for module in {modules!r}: importlib.import_module(module)\n"
        f"print('loaded:', *sorted(set({TERMINAL!r}) & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "loaded:"
