"""A program loads what it uses and nothing else: imports are time and memory of each rank and of each command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.client.test_library import CORE, PACKAGE

LOOP = {"asyncio", "websockets", "prompt_toolkit"}
CORE_MODULES = ", ".join(".".join(("dbg_client", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in CORE)
OF_A_RANK = (
    "autostart launch.this_process link.link program.entry guard.rank_side breakpoints.startup_stops evidence.gather"
)

MOST_OF_A_RANK = 70
"""Modules of ours in a rank after `install()`, packages counted."""

ENTRIES = {"dbg_client": "dbg_client.command_line.main", "dbg_broker": "dbg_broker.cli.main"}

CASES = {
    "the package of the client": ("import dbg_client", {"dbg_wire", "dbg_client.core"}),
    "the core of the client": (
        f"import {CORE_MODULES}",
        {"prompt_toolkit", "termios", "tty", "pty", "curses", "tomllib", "aiohttp"},
    ),
    "other faces than the page": (
        "import dbg_client.mcp.server, dbg_client.dap.adapter, dbg_client.terminal.session",
        {"aiohttp"},
    ),
    "what a rank imports": (
        "import " + ", ".join(f"dbg_agent.{name}" for name in OF_A_RANK.split()),
        {"pathlib", "torch", "mpi4py", "numpy"},
    ),
    "a look at collectives": (
        "from dbg_agent.evidence.gather import collectives_seen; assert collectives_seen() == []",
        {"torch", "mpi4py", "numpy", "pathlib"},
    ),
    **{
        f"{package} {' '.join(words)}": (
            f"from {ENTRIES[package]} import main\ntry: main({words!r})\nexcept SystemExit: pass",
            LOOP | ({"ssl"} if "--complete" not in words else set()),
        )
        for package, words in (
            ("dbg_client", ["--help"]),
            ("dbg_client", ["--version"]),
            ("dbg_client", ["--watch", "--take", "5"]),
            ("dbg_client", ["--complete", "where", ""]),
            ("dbg_broker", ["--help"]),
        )
    },
}


@pytest.mark.parametrize("case", CASES)
def test_no_unused_module_is_loaded(case: str) -> None:
    program, unused = CASES[case]
    code = f"import sys; sys.path[:] = {sys.path!r}\n{program}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert unused.isdisjoint(done.stdout.splitlines()[-1].split()), case


def test_a_rank_loads_few_modules_of_this_project(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\nimport dbg_agent\n"
        "dbg_agent.install(broker='127.0.0.1:9', connect_timeout=0.1)\nprint(*sys.modules)"
    )
    environ = {**os.environ, "DBG_HOME": str(tmp_path), "DBG_TOKEN": "t" * 43}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environ)
    ours = {name for name in done.stdout.splitlines()[-1].split() if name.startswith("dbg_")}
    assert 40 < len(ours) <= MOST_OF_A_RANK, sorted(ours)
