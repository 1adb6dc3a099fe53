from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dbg_broker.home.rendezvous import lock


def test_a_lock_ends_with_its_process(home: Path) -> None:
    program = (
        "import pathlib, sys; from dbg_broker.home.rendezvous import lock; held = lock(pathlib.Path(sys.argv[1]));"
        "print(held is not None, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == "True\n"
        assert lock(home) is None
        broker.kill()
    with lock(home) or pytest.fail("the lock outlived its process"):
        pass
