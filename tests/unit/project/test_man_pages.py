"""The manual pages in docs/man are those of the tables, and show without a warning."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.docs.man_pages import PAGES
from tests.docs.pages import ROOT
from tests.support.requirements import needs_man


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_the_one_that_the_tables_make(name: str) -> None:
    assert (ROOT / f"docs/man/{name}.1").read_text() == PAGES[name], "run python -m tests.docs.man_pages"


@needs_man
@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_without_a_warning(name: str) -> None:
    page = ROOT / f"docs/man/{name}.1"
    checked = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page], capture_output=True, text=True, check=True)
    shown = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", page],
        env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert (checked.stderr, shown.stderr) == ("", "")
    assert f"{name.upper()}(1)" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 90


def test_the_pages_are_installed_where_man_looks() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for name in PAGES:
        assert f'"docs/man/{name}.1" = "share/man/man1/{name}.1"' in project
