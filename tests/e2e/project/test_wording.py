"""Tests assert on facts, not on the product's wording: few of them hold four consecutive words of one of its strings.

Sentences stand in the approval files of the packages; a test that needs one formats the product's own object.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.packages import ROOT, modules

TOKEN = re.compile(r"[\w./$@'-]+")
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
IN_A_ROW = 4
"""Words in a row that make a quotation."""

AWAITED_IN_A_ROW = 3
"""The same for a text that a test waits for: if the product words it differently, the test only times out."""

MOST_QUOTING = 60
MOST_WAITING = 60
Phrase = tuple[str, ...]


def phrases(text: str, length: int) -> Iterator[Phrase]:
    """Yield all runs of so many words; a name, a path or a number between them is no word and ends a run."""
    words = [token.strip("./'-").lower() for token in TOKEN.findall(text)]
    for at in range(len(words) - length + 1):
        found = words[at : at + length]
        if all(WORD.fullmatch(word) for word in found):
            yield tuple(found)


def strings(node: ast.AST) -> Iterator[str]:
    """Yield the strings below a node, without docstrings."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.Constant):
            if isinstance(each.value, str) and not isinstance(node, ast.Expr):
                yield each.value
        else:
            yield from strings(each)


def is_sentence(text: str) -> bool:
    """Say whether a string is not the source of a rank's script."""
    return "\n    " not in text and "import " not in text


def units(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield functions and statements of a module, those of its classes one by one."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from units(node.body)
        else:
            yield node


def waits(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls below a node that wait for a text."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            name = each.func.attr if isinstance(each.func, ast.Attribute) else getattr(each.func, "id", "")
            if name.startswith("wait_for"):
                yield each


def found_in(path: Path, quotable: set[Phrase], awaited: set[Phrase]) -> tuple[list[str], list[str]]:
    """Return the places of a test module that quote the product, and those that wait for its wording."""
    quoting, waiting = [], []
    source = path.read_text()
    for unit in units(ast.parse(source).body):
        place = f"{path.relative_to(ROOT)}:{unit.lineno}"
        if any(is_sentence(text) and not quotable.isdisjoint(phrases(text, IN_A_ROW)) for text in strings(unit)):
            quoting.append(place)
        if "wait_for" in source:
            for call in waits(unit):
                if any(not awaited.isdisjoint(phrases(text, AWAITED_IN_A_ROW)) for text in strings(call)):
                    waiting.append(place)
    return quoting, waiting


def test_few_tests_quote_the_product_or_wait_for_its_wording() -> None:
    quotable: set[Phrase] = set()
    awaited: set[Phrase] = set()
    for module in modules():
        for text in strings(module.tree()):
            quotable.update(phrases(text, IN_A_ROW))
            awaited.update(phrases(text, AWAITED_IN_A_ROW))
    assert len(quotable) > 5000
    quoting: list[str] = []
    waiting: list[str] = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        more = found_in(path, quotable, awaited)
        quoting += more[0]
        waiting += more[1]
    assert len(quoting) <= MOST_QUOTING, quoting
    assert len(waiting) <= MOST_WAITING, waiting


def test_a_quotation_is_found() -> None:
    quotable = set(phrases("the rank has not answered within {seconds} s", IN_A_ROW))
    assert ("rank", "has", "not", "answered") in quotable
    assert quotable.isdisjoint(phrases("the rank 3 has not answered", IN_A_ROW))
