"""The library without ``await`` is what its script makes of the asynchronous one."""

from __future__ import annotations

import ast

from tests.support.blocking import MODULE, text


def test_the_module_is_current() -> None:
    made, there = (ast.dump(ast.parse(source)) for source in (text(), MODULE.read_text()))
    assert made == there, "run `python -m tests.support.blocking` and look at what has changed"
