"""The screenshot shows what a run shows now; ``scripts/make-screenshots`` makes it anew."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path

from tests.docs.console import plain
from tests.docs.page_picture import PICTURE, SCALE, SIZE
from tests.docs.pages import ROOT
from tests.docs.pictures import SCREENSHOT, record, text_of
from tests.docs.scenes import SCENES, Stage
from tests.support.processes import Processes


def comparable(rows: Sequence[str]) -> list[str]:
    """Return the rows without what differs from run to run, and without numbers, PuDB's version among them."""
    return [re.sub(r"[0-9.]+", "0", plain(row)) for row in rows]


def test_the_screenshot_matches_a_run(processes: Processes, tmp_path: Path) -> None:
    _, rows = record(Stage(processes, SCENES["hang"], tmp_path))
    assert comparable(rows) == comparable(text_of(SCREENSHOT.read_text(encoding="utf-8")))


def test_the_readme_and_the_web_page_include_the_picture() -> None:
    picture = PICTURE.read_bytes()
    assert picture.startswith(b"\x89PNG\r\n")
    size = struct.unpack(">II", picture[16:24])
    assert size == tuple(side * SCALE for side in SIZE)
    assert len(picture) < 400_000
    assert "docs/images/page.png" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "images/page.png" in (ROOT / "docs/web.md").read_text(encoding="utf-8")
