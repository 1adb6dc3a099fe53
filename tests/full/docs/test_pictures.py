"""The screenshot and the recording show what a run shows now; ``scripts/make-screenshots`` makes them anew."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path

from tests.docs.console import plain
from tests.docs.page_picture import PICTURE, SCALE, SIZE
from tests.docs.pages import ROOT
from tests.docs.pictures import EMBEDDED, RECORDING, SCREENSHOT, embedded, record, screens, text_of
from tests.docs.scenes import SCENES, Stage
from tests.support.processes import Processes


def comparable(rows: Sequence[str]) -> list[str]:
    """Return the rows without what differs from run to run, and without numbers, PuDB's version among them."""
    return [re.sub(r"[0-9.]+", "0", plain(row)) for row in rows]


def test_a_run_shows_what_picture_and_recording_show(processes: Processes, tmp_path: Path) -> None:
    taken = record(Stage(processes, SCENES["hang"], tmp_path))
    assert comparable(taken.pudb) == comparable(text_of(SCREENSHOT.read_text(encoding="utf-8")))
    shown = [comparable(rows) for rows in screens(RECORDING.read_text(encoding="utf-8"))]
    assert comparable(taken.pudb) in shown
    assert comparable(taken.end) == shown[-1]


def test_the_site_plays_the_same_recording() -> None:
    assert EMBEDDED.read_text(encoding="utf-8") == embedded(RECORDING.read_text(encoding="utf-8"))


def test_the_picture_of_the_page_is_shown_where_it_is_told_of() -> None:
    picture = PICTURE.read_bytes()
    assert picture.startswith(b"\x89PNG\r\n")
    size = struct.unpack(">II", picture[16:24])
    assert size == tuple(side * SCALE for side in SIZE)
    assert len(picture) < 400_000
    assert "docs/images/page.png" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "images/page.png" in (ROOT / "docs/web.md").read_text(encoding="utf-8")


def test_the_player_comes_with_its_licence() -> None:
    folder = ROOT / "docs/assets/asciinema-player"
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert "AsciinemaPlayer" in (folder / "asciinema-player.min.js").read_text()
