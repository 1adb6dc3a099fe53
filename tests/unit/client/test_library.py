"""What ``import dbg_client`` offers to programs of users, and what its core must not use."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import dbg_client
from dbg_wire.records.record import Record

PACKAGE = Path(dbg_client.__file__).parent
ROOT = Path(__file__).parents[3]
CORE = sorted(
    path
    for folder in ("api", "core", "seat", "questions", "views", "words")
    for path in (PACKAGE / folder).rglob("*.py")
    if path.name != "__init__.py"
)
STREAMS = {"stdin", "stdout", "stderr"}


def test_api_page_lists_exactly_the_public_names() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    left_out = [name for name in dbg_client.__all__ if not re.search(rf"\b{name}\b", page)]

    assert left_out == []
    rows = dict(re.findall(r"^\| (`[A-Z][^|]*`) \| (.*) \|$", page, re.MULTILINE))
    for classes, members in rows.items():
        for name in re.findall(r"`([A-Z]\w+)`", classes):
            assert _public(getattr(dbg_client, name)) == _named(members, name)


def _public(kind: type) -> set[str]:
    """Return the names that objects of a class have, those set in its ``__init__`` included."""
    source = (
        inspect.getsource(vars(kind)["__init__"])
        if "__init__" in vars(kind) and not hasattr(kind, "__dataclass_fields__")
        else ""
    )
    attributes = set(re.findall(r"self\.([a-z]\w*)(?:: [^=]+)? =", source))
    fields = set(getattr(kind, "__dataclass_fields__", {}))
    inherited = set() if kind.__base__ in (object, None, Record) else _public(kind.__base__)
    members = {name for name in vars(kind) if not name.startswith("_")}
    return members | attributes | fields | inherited


def _named(members: str, name: str) -> set[str]:
    for base in ("Ranks", "Answer", "AsyncStop"):
        if f"all of `{base}`" in members:
            return _public(getattr(dbg_client, base)) | _named(members.replace(f"all of `{base}`", ""), name)
    if "why --json" in members:
        return set(dbg_client.Verdict.__dataclass_fields__)
    if "slow --json" in members:
        return set(dbg_client.SlowVerdict.__dataclass_fields__)
    return set(re.findall(r"`([a-z]\w*)", members)) - {"job"} | ({"job"} if "Broker" in name else set())


def test_every_public_name_exists_and_has_a_docstring() -> None:
    assert {name: bool(getattr(dbg_client, name).__doc__) for name in dbg_client.__all__} == dict.fromkeys(
        dbg_client.__all__, True
    )


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_core_neither_reads_nor_writes_the_standard_streams(path: Path) -> None:
    used = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and ast.unparse(node.value) == "sys" and node.attr.strip("_") in STREAMS)
        or (isinstance(node, ast.Name) and node.id in {"print", "input", *STREAMS})
        or (isinstance(node, ast.ImportFrom) and node.module == "sys" and STREAMS & {name.name for name in node.names})
    ]

    assert used == []
