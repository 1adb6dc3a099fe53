"""The page on security promises nothing that no test shows."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs/security.md"
LINK = re.compile(r"\[(?P<words>[\w ]+)\]\(\.\./(?P<file>tests/[\w/]+/test_\w+\.py)\)")
"""A test as the page names it: the words of its name, with a link to its file."""


def rows() -> list[list[str]]:
    """Return the cells of the table of who can do what, without its head."""
    section = PAGE.read_text().partition("## Who can do what\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]


def functions_of(file: str) -> set[str]:
    """Return the names of the tests of a file: functions at its top, and methods of its classes named Test."""
    found: set[str] = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found |= {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {name for name in found if name.startswith("test_")}


def test_each_thing_that_somebody_can_not_do_is_shown_by_a_test() -> None:
    assert {len(row) for row in rows()} == {4}
    without = [cannot for _, _, cannot, shown in rows() if bool(cannot) != bool(LINK.search(shown))]
    assert without == []
    assert len(rows()) > 25


def test_all_who_may_come_are_in_the_table() -> None:
    who = [name.strip("*") for name, _, _, _ in rows() if name]
    assert [name for name in who if name.startswith(("A stranger", "A rank", "A watcher", "A driver", "Root"))]
    assert all(can for name, can, _, _ in rows() if name)
    assert len(who) == 11


@pytest.mark.parametrize(
    ("file", "words"), sorted({(link["file"], link["words"]) for row in rows() for link in LINK.finditer(row[3])})
)
def test_each_test_that_is_named_exists(file: str, words: str) -> None:
    name = f"test_{words.replace(' ', '_')}"
    assert name in functions_of(file)
