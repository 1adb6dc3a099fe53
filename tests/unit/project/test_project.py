"""The project agrees with itself: its changelog, addresses, verbs and the page of its log lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dbg_broker.cli.parser import OF_THE_TERMINAL, parser_of_the_command, verbs_of
from dbg_client.verbs.table import VERBS
from dbg_wire import RELEASE
from tests.support.packages import ROOT, parsed

PROJECT = (ROOT / "pyproject.toml").read_text()


def test_changelog_begins_with_unreleased_or_this_release() -> None:
    newest = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    is_release = re.fullmatch(r"\d+\.\d+\.\d+", RELEASE)
    assert newest == (RELEASE if is_release else "Unreleased")


def test_all_addresses_begin_with_the_source_address() -> None:
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


OF_BROKER = set(verbs_of(parser_of_the_command()))
OF_TERMINAL = {row.name for row in VERBS}


def test_the_broker_knows_the_verbs_of_the_terminal() -> None:
    assert OF_TERMINAL - OF_BROKER - {"help"} == OF_THE_TERMINAL


PAGE = (ROOT / "docs/reference/log-lines.md").read_text(encoding="utf-8")
LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error"}

_ROW = re.compile(r"(?m)^\| `([\w.]+)` \| (\w+) \| `(.+?)` \|")


def logged_in(path: str, tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Return logger, level and event of each call of a module's logger."""
    name = next(
        (
            node.value.args[0].value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and isinstance(target := node.targets[0], ast.Name)
            and target.id == "logger"
            and isinstance(node.value.args[0], ast.Constant)
        ),
        None,
    )
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "logger"
        ):
            event = node.args[0]
            assert name is not None, f"{path} logs under no name of its own"
            assert isinstance(event, ast.Constant), f"{path}:{node.lineno} logs what no table can list"
            yield str(name), LEVELS[node.func.attr], str(event.value)


def all_logged() -> set[tuple[str, str, str]]:
    """Return logger, level and event of all calls in broker and agent."""
    found = parsed("logger")
    return {
        call
        for module, tree in found
        if module.package in ("dbg_broker", "dbg_agent")
        for call in logged_in(module.place, tree)
    }


def test_table_lists_all_log_calls_of_the_code() -> None:
    assert sorted(_ROW.findall(PAGE)) == sorted(all_logged())
