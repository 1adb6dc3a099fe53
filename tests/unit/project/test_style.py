"""Constructions that docs/style.md rules out do not come back in docstrings, comments, messages and pages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.packages import ROOT

FORBIDDEN = {
    "a duration takes `for`": re.compile(
        r"(?<!-)\bsince (?:\{\w*(?:seconds|duration|age)|\d+(?:\.\d+)? ?(?:s|ms|min|h)\b)"
    ),
    "`is not a`, not `is no`": re.compile(r"(?<![Tt]here )\b(?:is|are) none\b"),
    "`Return True if`, or `Whether`": re.compile(r"\bTells? whether\b"),
    "`Return the NOUN`": re.compile(r"\bReturns? what\b"),
    "no word of our own": re.compile(r"\b(?:anew|in vain|whoever)\b", re.IGNORECASE),
}

NOT_FIRST = re.compile(r"(?:What|Who|Whoever|Whose|Whom|Of)\s")

CODE = re.compile(r"`+[^`]+`+|^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
SOURCES = [path for part in ("agent", "broker", "client", "wire") for path in sorted((ROOT / part).rglob("*.py"))]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *ROOT.glob("*.md"), *ROOT.glob("*/README.md")]


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each string and comment of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each string that stands by itself: docstrings, also those of attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def violations(texts: Iterator[tuple[int, str]]) -> list[str]:
    """Return a line for each forbidden construction in the texts."""
    plain = ((line, text, CODE.sub("", text)) for line, text in texts)
    return [
        f"{n}: {rule}: {text[:90]}" for n, text, part in plain for rule, odd in FORBIDDEN.items() if odd.search(part)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_has_no_forbidden_construction(path: Path) -> None:
    source = path.read_text()
    odd = [f"{line}: begins with a pronoun: {text[:90]}" for line, text in docstrings(source) if NOT_FIRST.match(text)]
    assert violations(prose(source)) + odd == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_has_no_forbidden_construction(path: Path) -> None:
    text = CODE.sub(lambda code: "\n" * code[0].count("\n"), path.read_text())
    assert violations(enumerate(text.split("\n"), 1)) == []


@pytest.mark.parametrize(
    "text",
    [
        "rank 3 waits since {seconds} s",
        "since 6 s",
        "Tell whether it ends",
        "that is none",
        "Return what is left",
        "anew",
    ],
)
def test_the_rules_find_what_they_forbid(text: str) -> None:
    assert violations(iter([(1, text)]))
