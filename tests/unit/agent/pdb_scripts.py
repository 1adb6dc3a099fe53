"""The interactive scripts of CPython's own ``test_pdb``, as the running interpreter has them, and how to judge them.

There are two kinds. A *conversation* is a doctest: examples that define functions, one or more that feed lines to pdb
by ``with PdbTestInput([...])``, and what must be seen. A *program* is a method of a test case that runs a file under
pdb with lines on its stdin, and itself asserts what must be seen.
"""

from __future__ import annotations

import ast
import doctest
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MODULE = "test.test_pdb"

LEFT_OUT = Path(__file__).with_name("pdb_scripts_left_out.txt")

RUNS_PDB = frozenset({"run_pdb_script", "run_pdb_module", "_run_pdb", "_run_script", "Popen", "run_pty", "_run_pty"})
"""Names by which a method of a test case is known to run a program under pdb."""

Event = list[object]
"""What was seen, in order: ``["out", text]`` by the program, ``["log", text]``, ``["prompt", text, reply]`` before the
piece of the log that has it, ``["confirm", text, reply]`` likewise for a question of the rank's pdb alone, and
``["start", number]`` of the example whose lines are fed from here on."""


@dataclass(frozen=True)
class Conversation:
    """One doctest."""

    name: str
    examples: tuple[doctest.Example, ...]

    def file_of(self, number: int) -> str:
        """Return the file name under which doctest compiles an example."""
        return f"<doctest {MODULE}.{self.name}[{number}]>"

    def lines_of(self, number: int) -> list[str] | None:
        """Return the lines that an example feeds to pdb; None if it feeds none."""
        for node in ast.walk(ast.parse(self.examples[number].source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "PdbTestInput":
                lines: list[str] = ast.literal_eval(node.args[0])
                return lines
        return None


@cache
def source_of_tests() -> str | None:
    """Return the source of the interpreter's ``test_pdb``; None where the interpreter came without its tests."""
    try:
        spec = importlib.util.find_spec(MODULE)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin).read_text(encoding="utf-8") if spec is not None and spec.origin else None


@cache
def conversations() -> dict[str, Conversation]:
    """Return the doctests that feed lines to pdb, by name."""
    found = {}
    for node in ast.walk(ast.parse(source_of_tests() or "")):
        if isinstance(node, ast.FunctionDef) and "PdbTestInput" in (ast.get_docstring(node) or ""):
            examples = doctest.DocTestParser().get_examples(ast.get_docstring(node, clean=False) or "")
            found[node.name] = Conversation(node.name, tuple(examples))
    return found


@cache
def programs() -> tuple[str, ...]:
    """Return the methods that run a program under pdb, as ``class.method``."""
    return tuple(
        f"{case.name}.{method.name}"
        for case in ast.parse(source_of_tests() or "").body
        if isinstance(case, ast.ClassDef)
        for method in case.body
        if isinstance(method, ast.FunctionDef) and method.name.startswith("test") and _names(method) & RUNS_PDB
    )


def _names(node: ast.AST) -> set[str]:
    walk = list(ast.walk(node))
    attributes = {child.attr for child in walk if isinstance(child, ast.Attribute)}
    return attributes | {child.id for child in walk if isinstance(child, ast.Name)}


# ------------------------------------------------------------------------------------------------------- those left out


@dataclass(frozen=True)
class LeftOut:
    """A script that is not driven, in which releases, and why."""

    name: str
    first: tuple[int, int]
    last: tuple[int, int]
    reason: str

    @property
    def applies(self) -> bool:
        """Tell whether the running interpreter is meant."""
        return self.first <= sys.version_info[:2] <= self.last


def left_out() -> list[LeftOut]:
    lines = LEFT_OUT.read_text(encoding="utf-8").splitlines()
    return [_entry(line) for line in lines if line.strip() and not line.startswith("#")]


def _entry(line: str) -> LeftOut:
    name, releases, reason = (part.strip() for part in line.split("|"))
    first, _, last = releases.partition("-")
    return LeftOut(name, _release(first, (3, 0)), _release(last, (3, 99)), reason)


def _release(text: str, default: tuple[int, int]) -> tuple[int, int]:
    major, _, minor = text.strip().partition(".")
    return (int(major), int(minor)) if text.strip() else default


def driven(names: Iterable[str]) -> list[str]:
    """Return the names that are not left out in the running interpreter."""
    skipped = {entry.name for entry in left_out() if entry.applies}
    return [name for name in names if name not in skipped]


# --------------------------------------------------------------------------------------------------------- judging them


def transcript(events: Iterable[Event], *, echo: bool) -> str:
    """Return what a terminal shows of these events; ``echo`` tells whether it shows what was typed."""
    shown: list[str] = []
    asked: Event | None = None
    for event in events:
        if event[0] == "out":
            shown.append(str(event[1]))
        elif event[0] in ("prompt", "confirm"):
            asked = event
            if event[2] is None:
                shown.append(str(event[1]))
        elif event[0] == "log":
            text = str(event[1])
            if asked is not None:
                text = _after_prompt(text, asked, echo)
                asked = None
            shown.append(text)
    return "".join(shown)


def _after_prompt(text: str, asked: Event, echo: bool) -> str:
    kind, prompt, reply = asked
    whole = f"{prompt}{reply}\n"
    if not text.startswith(whole):
        raise AssertionError(f"the log goes on with {text!r} instead of {whole!r}")
    kept = "" if kind == "confirm" else whole if echo else str(prompt)
    return kept + text[len(whole) :]


def differences(conversation: Conversation, events: Iterable[Event]) -> list[str]:
    """Return one text for each example whose output is not the expected one, with both."""
    by_example: dict[int, list[Event]] = {}
    number = -1
    for event in events:
        if event[0] == "begin":
            number = int(str(event[1]))
        by_example.setdefault(number, []).append(event)
    checker = doctest.OutputChecker()
    found = []
    for index, example in enumerate(conversation.examples):
        seen = transcript(by_example.get(index, []), echo=True)
        flags = sum(flag for flag, is_on in example.options.items() if is_on)
        if not checker.check_output(example.want, seen, flags):
            shown = checker.output_difference(example, seen, flags | doctest.REPORT_NDIFF)
            found.append(f"{conversation.file_of(index)}\n{shown}")
    return found
