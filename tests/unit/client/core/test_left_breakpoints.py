from __future__ import annotations

from pathlib import Path

import pytest

from dbg_client.core.left_breakpoints import read_breakpoints, write_breakpoints
from dbg_wire.records.ranks import Breakpoint

ONE = Breakpoint(file="/home/me/train.py", line=7, condition="loss > 9", text="step()")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "0.json")
    write_breakpoints(path, [ONE])
    write_breakpoints(path, [ONE, Breakpoint(file="/a.py", line=1)])

    assert read_breakpoints(path) == (ONE, Breakpoint(file="/a.py", line=1))
    assert [file.name for file in tmp_path.iterdir()] == ["0.json"]


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "7", '[{"file": "a.py", "line": 1}]', '[{"line": 1}]', "[1]", "\udcff"]
)
def test_what_was_not_written_here_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "0.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    assert read_breakpoints(str(path)) == ()


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path) -> None:
    path = str(tmp_path / "gone" / "0.json")
    write_breakpoints(path, [ONE])
    assert read_breakpoints(path) == ()
