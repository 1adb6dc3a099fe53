"""The launchers start ranks here."""

from __future__ import annotations

import sys

from tests.support.launchers import mpirun
from tests.support.processes import Processes
from tests.support.requirements import needs_mpirun

# The line is one write, because mpirun passes on the bytes of each rank as they come.
WHO = """
import os
os.write(1, f"{os.environ['OMPI_COMM_WORLD_RANK']} of {os.environ['OMPI_COMM_WORLD_SIZE']}\\n".encode())
"""


@needs_mpirun
def test_mpirun_starts_its_ranks(processes: Processes) -> None:
    job = processes.start("mpirun", mpirun(4, sys.executable, "-c", WHO))
    assert job.wait() == 0
    assert sorted(job.text().split("\n")) == ["", "0 of 4", "1 of 4", "2 of 4", "3 of 4"]
