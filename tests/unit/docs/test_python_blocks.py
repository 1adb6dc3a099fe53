"""The Python of the pages is Python, and calls dbg_agent with arguments that it takes."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import dbg_agent
from tests.docs.pages import ROOT, blocks, pages

OURS = ("set_trace", "install", "post_mortem")
STOCK = frozenset({"host", "port", "term_size", "reverse"})
"""Arguments of the set_trace of pudb.remote, which some pages show."""


def arguments_of(name: str) -> set[str]:
    """Return the names of the arguments of one of our functions."""
    return set(inspect.signature(getattr(dbg_agent, name)).parameters)


def unknown_arguments(text: str) -> list[str]:
    """Return the arguments in calls of our functions that those don't take."""
    unknown = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            given = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
            if name in OURS and not given <= STOCK:
                unknown += sorted(given - arguments_of(name))
    return unknown


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_calls_in_a_page_are_ones_that_work(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "python":
            assert unknown_arguments(block.text) == []


def test_an_argument_that_does_not_exist_is_found() -> None:
    assert unknown_arguments("import dbg_agent\ndbg_agent.install(postmortem=True)\n") == ["postmortem"]
