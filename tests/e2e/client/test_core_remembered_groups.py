from __future__ import annotations

import subprocess
import sys


def terminal(*prefix: str) -> str:
    script = (
        "import os\n"
        "from dbg_client.core.remembered_groups import find_remembered_groups\n"
        "print(find_remembered_groups(os.environ).terminal)\n"
    )
    done = subprocess.run(
        [*prefix, sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_a_terminal_is_a_session_whether_or_not_there_is_a_tty() -> None:
    in_another_session = ("setsid", "-w", "sh", "-c", '"$@"; true', "sh")

    assert terminal() == terminal() == terminal("setsid", "-w")
    assert terminal(*in_another_session) != terminal()
