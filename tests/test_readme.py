"""Each option that the README names exists, and each setting is in its table."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from dbg_agent.program.script import FLAGS, OPTIONS
from dbg_agent.settings import Settings
from dbg_client.words.arguments import build_parser

README = (Path(__file__).parents[1] / "README.md").read_text()
VARIABLES = {"rc": "DBG_PDBRC"}
"""Arguments whose variable has another name."""


@pytest.mark.parametrize("argument", [field.name for field in fields(Settings)])
def test_each_argument_is_in_the_table_with_its_variable(argument: str) -> None:
    variable = VARIABLES.get(argument, f"DBG_{argument.upper()}")
    assert re.search(rf"^\| `{variable}` \| `{argument}=` \| `\w+`", README, re.MULTILINE)


def test_each_option_that_follows_a_command_is_one_of_it() -> None:
    of_terminal = set(re.findall(r"(?<![\w-])--?[a-z][-a-z]*", build_parser().format_help()))
    commands = re.findall(r"\bdbg-attach\b([^`\n#|]*)", README)
    options = {option for command in commands for option in re.findall(r"(?<=\s)--?[a-z][-a-z]*", command)}
    assert {"-w", "-e", "--fail-if-differ"} <= options
    assert options <= of_terminal


def test_each_option_of_the_runner_is_one_of_it() -> None:
    commands = re.findall(r"python -m dbg_agent\b([^`\n#|]*)", README)
    options = {option for command in commands for option in re.findall(r"(?<=\s)--[a-z][-a-z]*", command)}
    assert "--post-mortem" in options
    assert options <= {*OPTIONS, *FLAGS}
