"""Tests of the page's files."""

from __future__ import annotations

from pathlib import Path

from dbg_client.faces.web.access import NONCE
from dbg_client.faces.web.files import page_text, static_files


def test_the_table_has_what_a_page_loads_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "grid").mkdir()
    for name in ("main.js", "grid/cells.js", "page.css", "index.html", "notes.md", ".hidden"):
        (tmp_path / name).write_text("x")
    (tmp_path / "odd.js").mkdir()
    found = static_files(tmp_path)
    assert list(found) == ["grid/cells.js", "main.js", "page.css"]
    assert found["main.js"].type == "text/javascript"
    assert found["main.js"].tag == found["page.css"].tag


def test_a_file_of_other_contents_has_another_tag(tmp_path: Path) -> None:
    (tmp_path / "main.js").write_text("1")
    before = static_files(tmp_path)["main.js"].tag
    (tmp_path / "main.js").write_text("2")
    assert static_files(tmp_path)["main.js"].tag != before


def test_the_page_has_a_place_for_its_nonce() -> None:
    assert NONCE in page_text()
