"""What a release says of itself agrees: its changelog, its version, its addresses, its licence."""

from __future__ import annotations

import re
from pathlib import Path

from dbg_wire.version import RELEASE

ROOT = Path(__file__).parents[3]
PROJECT = (ROOT / "pyproject.toml").read_text()


def test_the_changelog_begins_with_what_is_unreleased_or_with_this_release() -> None:
    newest = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    is_release = re.fullmatch(r"\d+\.\d+\.\d+", RELEASE)
    assert newest == (RELEASE if is_release else "Unreleased")


def test_all_addresses_are_below_one() -> None:
    """A reader on PyPI follows each link of the README, and sees its picture."""
    (source,) = re.findall(r'^Source = "(.+)"$', PROJECT, re.MULTILINE)
    addresses = re.findall(r"https://github\.com/[^\s\"']+", PROJECT)
    assert len(addresses) == 4
    assert all(address.startswith(source) for address in addresses)

    (pattern,) = re.findall(r"^pattern = '(.+)'$", PROJECT, re.MULTILINE)
    (replacement,) = re.findall(r"^replacement = '(.+)'$", PROJECT, re.MULTILINE)
    text = re.sub(pattern, replacement, (ROOT / "README.md").read_text())
    assert not re.findall(r"\]\((?!https?://)[^)]*\)", text)
    assert f"![PuDB in rank 2]({source}/blob/HEAD/docs/images/pudb.svg?raw=true)" in text
