"""What is typed at PuDB's command line ends no process, can be interrupted, prints within bounds, leaves no file."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from tests.unit.agent.engines.test_pudb_command_line import at_command_line
from tests.unit.agent.pudb_viewer import Viewer, play


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
