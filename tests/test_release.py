"""What a release says of itself agrees: its changelog, its version, its licence."""

from __future__ import annotations

import re
from pathlib import Path

from dbg_wire.version import RELEASE

ROOT = Path(__file__).parents[1]


def test_the_newest_entry_of_the_changelog_is_this_release() -> None:
    entries = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert entries[0] == RELEASE


def test_the_licence_is_the_one_declared() -> None:
    assert re.search(r'^license = "MIT"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert (ROOT / "LICENSE").read_text().startswith("MIT License\n")
