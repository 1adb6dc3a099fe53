"""What is typed at PuDB's command line ends no process, can be interrupted, prints within bounds, leaves no file."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.time_unit import seconds
from tests.unit.agent.pudb_stops import stop_with_each
from tests.unit.agent.pudb_viewer import Viewer, at_command_line, drive, play


def test_tab_completes_and_writes_nothing_and_changes_no_setting(
    viewer: Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jedi.settings  # PuDB imports it into the rank at the first Tab

    places = tmp_path / "tmp"
    places.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    before = jedi.settings.cache_directory, sys.getrecursionlimit()
    monkeypatch.setattr(jedi.settings, "cache_directory", os.path.expanduser("~/.cache/jedi"))  # noqa: PTH111

    def script() -> None:
        at_command_line(viewer)
        viewer.type(b"import json\rjson.JSONDec\t")
        viewer.sees(">>> json.JSONDecode")
        viewer.type(b"\x15tot\t")
        viewer.sees(">>> total")
        viewer.type(b"\x15\x18c")

    assert play(viewer, script) == 7
    assert jedi.settings.cache_directory == os.path.expanduser("~/.cache/jedi")  # noqa: PTH111
    assert sys.getrecursionlimit() == before[1]
    assert list(places.iterdir()) == []


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


IMPORTS = """\
import sys
from dbg_agent.process.imports import unwarned
from dbg_agent.debuggers.pudb_import import OPTIONAL_MODULES, doing_without
before = set(sys.modules)
with unwarned(), doing_without(OPTIONAL_MODULES):
    import pudb.debugger
for name, module in list(sys.modules.items()):
    if "." not in name and name not in before and "site-packages" in (getattr(module, "__file__", None) or ""):
        print(name)
"""

WHAT_PUDB_NEEDS = {"pudb", "urwid", "urwid_readline", "wcwidth", "pygments", "jedi", "parso", "typing_extensions"}


def test_no_library_is_loaded_that_pudb_can_do_without() -> None:
    command = [sys.executable, "-c", IMPORTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds(30), check=True)
    assert set(done.stdout.split()) <= WHAT_PUDB_NEEDS
