"""What is found out about the process of another user before anything is done to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_client.adopt.errors import CantAdopt
from dbg_client.adopt.one import adopt_one
from tests.support.requirements import needs_gdb

NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root adopts processes of other users")


@needs_root
@needs_gdb
def test_a_process_whose_user_may_not_read_the_broker_is_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(0o700)
    (home / "broker.json").write_text("{}")
    program = f"import os, sys; os.setgid({NOBODY}); os.setuid({NOBODY}); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(CantAdopt, match=r"belongs to user 65534, who may not read .*broker\.json"):
            adopt_one(child.pid, {"DBG_HOME": str(home)})
        child.kill()
