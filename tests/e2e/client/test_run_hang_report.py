"""Where the report of a hang is, and the last lines of a job and of its ranks in it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from dbg_client.run.hang_report import last_lines
from dbg_wire.records.ranks import RankState
from tests.unit.client.fake_broker import make_rank


def test_files_that_ranks_of_this_host_write_to_are_read(tmp_path: Path) -> None:
    output, own = tmp_path / "train.out", tmp_path / "rank0.log"
    output.write_text("begins\n")
    own.write_text("step 1\nstep 2\n")
    here = socket.gethostname().partition(".")[0]
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", "exec sleep 60"],
        {"PATH": os.environ["PATH"]},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, str(own), os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(output), os.O_WRONLY, 0),
        ],
    )
    try:
        near = make_rank(0, host=here, address=f"{here}:0", pid=pid, state=RankState.RUNNING)
        far = make_rank(1, host="another", pid=pid, state=RankState.RUNNING)
        told = last_lines(str(output), [near, far])
        output.write_text("[default0]:step 2\n[default1]:step 2\n")
        once = last_lines(str(output), [near, far])
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert told == ["begins", f"{here}:0, {own}:", "  step 1", "  step 2"]
    # What torchrun's --tee writes twice is told once.
    assert once == ["0-1:", "  step 2"]
