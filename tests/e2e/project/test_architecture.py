"""docs/architecture.md and the README of each role agree with the code: files, names, imports, locks and threads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.support.packages import (
    ARCHITECTURE,
    BEGIN,
    END,
    GENERATED,
    ROOT,
    THREADS,
    Module,
    drawing,
    modules,
    package_folders,
    parsed,
)

PAGE = ARCHITECTURE.read_text() + THREADS.read_text()

MOST_BYTES = 18 * 1024
"""Bytes of the map: a reader holds no more of it."""
LOCKS = frozenset({"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"})
"""Names in ``threading`` that make a lock."""

CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[a-z]+(?:/\w+)+\.py")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?")
FOLLOWS = re.compile(r"(?:\s|,|and)*")
"""Text between a file and the names that the page places in that file."""


def short_names() -> dict[str, Module]:
    """Return all modules by the names that documents use."""
    return {module.short: module for module in modules()}


def files_named(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each file of a text, with the names behind it."""
    found = list(CODE.finditer(text))
    for number, match in enumerate(found):
        if not FILE.fullmatch(match[1]):
            continue
        names = []
        end = match.end()
        for follower in found[number + 1 :]:
            if not FOLLOWS.fullmatch(text[end : follower.start()]) or not NAME.fullmatch(follower[1]):
                break
            names.append(follower[1])
            end = follower.end()
        yield match[1], names


@cache
def names_in(module: Module) -> frozenset[str]:
    """Return what a module defines, members of its classes as ``Class.member``, and attributes by their name."""
    found: set[str] = set()
    tree = module.tree()
    for statement in tree.body:
        found.update(_defined(statement))
        if isinstance(statement, ast.ClassDef):
            found.update(f"{statement.name}.{name}" for member in statement.body for name in _defined(member))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return frozenset(found)


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))


def test_the_page_is_short() -> None:
    assert ARCHITECTURE.stat().st_size <= MOST_BYTES


def test_the_drawing_agrees_with_the_imports() -> None:
    drawn = PAGE.partition(BEGIN)[2].partition(END)[0]
    assert drawn == drawing(), "run `python -m tests.support.packages` and look at what has changed"


def test_each_named_file_exists_and_has_the_names_listed_for_it() -> None:
    known = short_names()
    wrong = []
    for file, names in files_named(PAGE):
        if file in known:
            wrong += [f"{file}: {name}" for name in names if name not in names_in(known[file])]
        elif not (ROOT / file).is_file():
            wrong.append(file)
    assert wrong == []


def test_each_named_folder_exists() -> None:
    packages = {package.removeprefix("dbg_"): folder for package, folder in package_folders().items()}
    for folder in re.findall(r"`((?:agent|broker|client)/[a-z_/]+)/`", PAGE):
        role, _, inside = folder.partition("/")
        assert (packages[role] / inside).is_dir(), folder


def locks() -> set[tuple[str, str]]:
    """Return file and name of each lock between threads."""
    found = set()
    for module, tree in parsed(*LOCKS):
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                found |= {(module.short, name) for name in _locks_of(node)}
    return found


def _locks_of(node: ast.Assign) -> Iterator[str]:
    for target in node.targets:
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for one, value in zip(targets, values, strict=False):
            made = value.values[-1] if isinstance(value, ast.BoolOp) else value
            if isinstance(made, ast.Call) and _is_of_threading(made.func, LOCKS):
                yield one.attr if isinstance(one, ast.Attribute) else ast.unparse(one)


def _is_of_threading(node: ast.expr, names: frozenset[str]) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node.value) == "threading" and node.attr in names


def test_each_lock_is_in_the_table() -> None:
    listed = set(re.findall(r"^\| [\d–]+ \| `([^`]+)` `([^`]+)` \|", PAGE, re.MULTILINE))
    assert listed == locks()


MAKES_THREADS = ("agent/process/threads.py", "broker/journal/worker.py")
"""Make threads for other modules, each of which gives its own a name."""


def threads() -> set[tuple[str, str]]:
    """Return file and name of each thread that is started, without a name where it has none."""
    found = set()
    for module, tree in parsed("Thread", "own_thread", "start_new_thread"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _is_of_threading(node.func, frozenset({"Thread"})):
                if module.short not in MAKES_THREADS:
                    names = [ast.literal_eval(keyword.value) for keyword in node.keywords if keyword.arg == "name"]
                    found.add((module.short, *names) if names else (module.short, ""))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "own_thread":
                if module.short not in MAKES_THREADS or isinstance(node.args[1], ast.Constant):
                    found.add((module.short, ast.literal_eval(node.args[1])))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("BoundedThreads", "WorkerThread"):
                found.add((module.short, ast.literal_eval(node.args[0])))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "_thread.start_new_thread":
                found.add((module.short, ""))
    return found


def test_each_thread_is_in_the_table() -> None:
    rows = re.findall(r"^\| \w+ \| (?:`([\w-]+)`|one without a name) in `([^`]+)` \|", PAGE, re.MULTILINE)
    assert {(file, name) for name, file in rows} == threads()


@pytest.mark.parametrize("package", package_folders())
def test_the_readme_of_a_role_lists_all_modules_and_folders_of_its_package(package: str) -> None:
    folder = package_folders()[package]
    readme = (folder.parent / "README.md").read_text()
    table = readme.partition(f"## What is where in `{package}`\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    there = {path.name for path in folder.glob("*.py") if path.name not in ("__init__.py", "__main__.py", GENERATED)}
    there |= {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    assert sorted(listed) == sorted(there)


@pytest.mark.parametrize("package", package_folders())
def test_each_file_named_in_the_readme_of_a_role_exists(package: str) -> None:
    readme = package_folders()[package].parent / "README.md"
    beside = [ROOT, *(folder for folder in package_folders().values() if folder.parent == readme.parent)]
    for file in re.findall(r"`([\w/]+\.(?:py|md))`", readme.read_text()):
        assert any((folder / file).is_file() for folder in beside), file
