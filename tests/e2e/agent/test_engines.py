"""PuDB draws values of wide characters, and loads no library that the program has not loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_agent.debuggers.pudb_import import OPTIONAL_MODULES
from tests.unit.agent.pudb_stops import stop_with_each
from tests.unit.agent.pudb_viewer import Viewer, drive


@pytest.mark.parametrize("columns", [40, 79, 100])
def test_wide_characters_are_drawn_at_every_length(viewer: Viewer, columns: int) -> None:
    def script() -> None:
        viewer.waits_for_stop(1)
        viewer.look(columns=columns)
        for number in range(1, 31):
            viewer.waits_for_stop(number)
            viewer.sees("漢")
            viewer.sees(f"number: {number}")
            viewer.type(b"c")

    finish = drive(viewer, script)
    stop_with_each(viewer.rank, ["漢" * length for length in range(1, 60, 2)])
    finish()
    assert viewer.rank.stops.number == 30
    assert viewer.rank.broker.warned == set()


IMPORT = """\
import sys
from dbg_agent.debuggers.pudb_import import OPTIONAL_MODULES, without_optional
from dbg_agent.process.imports import unwarned
with unwarned(), without_optional():
    import pudb.debugger
print(*OPTIONAL_MODULES & set(sys.modules))
import numpy
"""


def test_importing_pudb_loads_no_optional_library(tmp_path: Path) -> None:
    for name in OPTIONAL_MODULES:
        (tmp_path / f"{name}.py").touch()
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-c", IMPORT]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
