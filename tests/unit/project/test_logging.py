"""docs/reference/log-lines.md lists the events that are logged, as the code words them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.support.packages import ROOT, parsed

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


def test_the_table_lists_what_the_code_logs() -> None:
    assert sorted(_ROW.findall(PAGE)) == sorted(all_logged())
