"""Lines that were pasted at once: a block of Python, or commands for one prompt after the other."""

from __future__ import annotations

import pdb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.terminal.line_keys import SEVERAL_COMMANDS, pasted_commands


@pytest.mark.parametrize(
    "block",
    [
        "x = 1\ny = 2",
        "c = 1\nn = 2",
        "for i in x:\n    p(i)",
        "def f():\n    return 1\n\nf()",
        "if x:\n    y\nelse:\n    z\nprint(z)",
        "p x",
        "n",
        "",
        "\n",
    ],
)
def test_python_and_a_single_line_stay_whole(block: str) -> None:
    assert pasted_commands(block) == [block]


@pytest.mark.parametrize(
    ("pasted", "commands"),
    [
        ("p 1\np 2\np 3", ["p 1", "p 2", "p 3"]),
        ("n\nn\n", ["n", "n"]),
        ("continue\ncontinue", ["continue", "continue"]),
        ("x = 1\nn\np x", ["x = 1", "n", "p x"]),
        ("b 3\n\ncommands 1\np x\nend\nc", ["b 3", "commands 1", "p x", "end", "c"]),
        ("for i in x:\n    print(i)\n\np 2", ["for i in x:\n    print(i)", "p 2"]),
        ("if x:\n    y\nelse:\n    z\np 2", ["if x:\n    y\nelse:\n    z", "p 2"]),
        ("f(1,\n2)\np 2", ["f(1,\n2)", "p 2"]),
        ("@d\ndef f():\n    return 1\np f()", ["@d\ndef f():\n    return 1", "p f()"]),
        ("p f(\nn", ["p f(", "n"]),
    ],
)
def test_commands_follow_one_another(pasted: str, commands: list[str]) -> None:
    assert pasted_commands(pasted) == commands


@given(st.lists(st.sampled_from(["n", "p x", "x = 1", "for i in x:", "    y", "", "else:", "f(", ")", "'''", "\0"])))
def test_nothing_but_empty_lines_is_lost(lines: list[str]) -> None:
    text = "\n".join(lines)
    pieces = pasted_commands(text)
    assert [line for piece in pieces for line in piece.split("\n") if line.strip()] == [
        line for line in lines if line.strip()
    ]


def test_all_commands_of_this_pdb_are_known() -> None:
    assert {name.removeprefix("do_") for name in dir(pdb.Pdb) if name.startswith("do_")} <= SEVERAL_COMMANDS
