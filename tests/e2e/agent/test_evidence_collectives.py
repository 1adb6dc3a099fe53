"""All libraries together: order, number, and what is left when one of them can't be read."""

from __future__ import annotations

import subprocess
import sys


def test_nothing_is_loaded_to_look() -> None:
    script = (
        "import sys\n"
        "from dbg_agent.evidence.gather import collectives_seen\n"
        "assert collectives_seen() == []\n"
        "print(*sorted({'torch', 'mpi4py', 'numpy', 'pathlib'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""
