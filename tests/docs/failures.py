"""The error sentences of the code, and the page that explains them; ``python -m tests.docs.failures`` writes it.

A sentence is found where the code makes it: the first argument of BadInput and of what is derived from it, what
``__str__`` of an error returns, and the code of a refusal. ``…`` stands for what is only known when it is said. A row
that is new gets the remedy that the code gives, and may be put better by hand: a row that is there stays.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache

from tests.docs.pages import ROOT
from tests.support.packages import Module, modules

PAGE = ROOT / "docs/failures.md"
MARK = "<!-- sentences: {} -->"
END = "<!-- end of the sentences -->"
UNKNOWN = "…"


@cache
def _trees() -> tuple[tuple[Module, ast.Module], ...]:
    return tuple((module, module.tree()) for module in modules())


@cache
def _classes() -> dict[str, tuple[str, ...]]:
    """Return the bases of each class of the packages by its name."""
    found = {}
    for _, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name] = tuple(base.id for base in node.bases if isinstance(base, ast.Name))
    return found


def is_a(name: str, root: str) -> bool:
    """Tell whether a class is ``root`` or derived from it."""
    return name == root or any(is_a(base, root) for base in _classes().get(name, ()))


@cache
def errors() -> dict[str, str]:
    """Return each class of DbgError with its sentence, empty where others give it one."""
    found = {}
    for _, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and is_a(node.name, "DbgError"):
                found[node.name] = _said_by(node)
    return found


@cache
def inputs() -> dict[str, str]:
    """Return each sentence about what was typed or set, with its remedy."""
    found = {}
    for _, tree in _trees():
        for call in _calls(tree):
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            if name and is_a(name, "BadInput") and len(call.args) == 2:
                found[text_of(call.args[0])] = text_of(call.args[1])
    return {what: remedy for what, remedy in found.items() if what.strip(f"{UNKNOWN} ")}


@cache
def refusals() -> dict[str, str]:
    """Return the codes with which the broker refuses a message."""
    vocabulary = next(tree for module, tree in _trees() if module.short == "wire/messages/vocabulary.py")
    codes = next(node for node in vocabulary.body if isinstance(node, ast.ClassDef) and node.name == "RefusalCode")
    values = [node.value for node in codes.body if isinstance(node, ast.Assign)]
    return {node.value: "" for node in values if isinstance(node, ast.Constant) and isinstance(node.value, str)}


SOURCES = {"errors": errors, "input": inputs, "refusals": refusals}


@cache
def _constants() -> dict[str, str]:
    """Return the texts that modules keep under a name."""
    return {
        node.targets[0].id: node.value.value
        for _, tree in _trees()
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def text_of(node: ast.expr) -> str:
    """Return the text of an expression, with ``…`` for each part that is not written in the code."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return re.sub(f"{UNKNOWN}+", UNKNOWN, "".join(text_of(value) for value in node.values))
    if isinstance(node, ast.FormattedValue):
        return text_of(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return _constants().get(node.id, UNKNOWN) if isinstance(node, ast.Name) else UNKNOWN


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _said_by(node: ast.ClassDef) -> str:
    """Return the sentences that an error may be, in the order of the code."""
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__str__":
            returned = [part.value for part in ast.walk(member) if isinstance(part, ast.Return) and part.value]
            texts = [text_of(value) for value in sorted(returned, key=lambda value: value.lineno)]
            return " – or: ".join(text for text in texts if text.strip(f"{UNKNOWN} "))
    return ""


def cell(text: str) -> str:
    """Return a text as a cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def rows(table: str) -> dict[str, tuple[str, ...]]:
    """Return the rows of a table of the page: the first cell, and those behind it."""
    inside = PAGE.read_text(encoding="utf-8").partition(MARK.format(table) + "\n")[2].partition(END)[0]
    found = re.findall(r"^\| `` ?(.+?) ?`` \| (.*) \|$", inside, re.MULTILINE)
    return {key: tuple(part.strip() for part in re.split(r"(?<!\\)\|", rest)) for key, rest in found}


def wanted(table: str) -> set[str]:
    """Return what a table of the page must have rows for."""
    return {cell(key) for key in SOURCES[table]()}


def write() -> None:
    """Add the rows that are missing, renew what the code says, and take out what nothing says any more."""
    for table, source in SOURCES.items():
        page = PAGE.read_text(encoding="utf-8")
        there = rows(table)
        lines = [
            f"| `` {key} `` | {' | '.join(renewed(table, there.get(key, ()), cell(told)))} |"
            for key, told in sorted((cell(key), told) for key, told in source().items())
        ]
        before, _, rest = page.partition(MARK.format(table) + "\n")
        inside, _, after = rest.partition(END)
        head = "\n".join(inside.splitlines()[:2])
        PAGE.write_text(
            f"{before}{MARK.format(table)}\n{head}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8"
        )


def renewed(table: str, there: Sequence[str], told: str) -> list[str]:
    """Return the cells behind the first: for an error what it says now, and what was written by hand."""
    by_hand = there[-1] if there else ""
    return [told, by_hand] if table == "errors" else [by_hand or told]


if __name__ == "__main__":
    write()
