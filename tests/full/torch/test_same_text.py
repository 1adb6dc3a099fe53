"""What a terminal, a program, a notebook, an agent and an IDE see of the same value of a rank is the same text."""

from __future__ import annotations

import asyncio
import html
import re
import sys
from contextlib import closing
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

import dbg_client
from dbg_client import Answer, RankError, Stop
from dbg_client.api.answers import safe_text
from dbg_client.api.notebook import RanksMagic
from tests.support.broker import running_broker
from tests.support.environment import clean_environment
from tests.support.ide import Ide, Refused, ide
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

pytestmark = needs_torch

TRAIN = """\
import dbg_agent, torch

class Odd:
    def __repr__(self):
        return "one\\x1b[2J\\ntwo\\ttabs\\u202e"

class Raises:
    def __repr__(self):
        raise RuntimeError("no\\x1b[2J repr")

tensor = torch.arange(12.0).reshape(3, 4)
nan = torch.full((1000,), float("nan"))
config = {"lr": 0.1, "betas": (0.9, 0.95), "nested": {"a": [1, 2, tensor]}, 3: None}
many = list(range(100000))
text = "x" * 50000
escape = "\\x1b[2J\\x1b]0;title\\x07 & <b>"
odd, raises = Odd(), Raises()
dbg_agent.set_trace()
"""

VALUES = ("tensor", "nan", "config", "many", "text", "escape", "odd", "raises", "(tensor.sum(), config['lr'])")
ERRORS = ("no_such_name", "1 / 0", "escape +", "config['\x1b[2J']")
CLEAR_SCREEN = "\x1b[2J"


def test_each_face_shows_the_same_text_of_a_value(
    processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_broker(processes, home)
    monkeypatch.setenv("DBG_HOME", str(home))
    start_ranks(processes, home, TRAIN, 1)
    wait_until_states(home, {0: "stopped"}, timeout=seconds(60))

    with (
        dbg_client.connect(timeout=seconds(20)) as broker,
        broker.job()[0].attach() as stop,
        ide(home) as window,
    ):
        window.attach()
        frame = int(window.top(window.stop_of(0))["id"])
        answers = {one: broker.job().eval(one) for one in (*VALUES, *ERRORS)}
        tables = asyncio.run(tables_of_an_agent(home, list(answers)))
        for expression, answer in answers.items():
            (group,) = answer.groups
            assert group.kind == ("value" if expression in VALUES else "error"), group
            assert CLEAR_SCREEN not in group.text
            told = set(told_at_a_stop(stop, expression))
            assert told == {group.text}
            assert told_to_an_ide(window, expression, frame) == group.text
            assert [*answer.values.values(), *answer.errors.values()] == [group.text]
            terminal = attach(home, "eval", "0", expression).stdout
            assert CLEAR_SCREEN not in terminal
            assert terminal == str(answer)
            assert tables[expression] == terminal.rstrip("\n")
            assert notebook_text(expression) == group.text
        named = [one for one in VALUES if one.isidentifier()]
        listed = stop.locals()
        assert {one: listed[one] for one in named} == {one: answers[one].groups[0].text for one in named}


def told_at_a_stop(stop: Stop, expression: str) -> list[str]:
    """Return what a program that holds the keyboard is told, and what asks for its parts."""
    told = []
    for ask in (stop.eval, lambda text: stop.inspect(text).text):
        try:
            told.append(ask(expression))
        except RankError as error:
            told.append(safe_text(error.text))
    return told


def told_to_an_ide(window: Ide, expression: str, frame: int) -> str:
    """Return what a watched expression shows."""
    try:
        return window.evaluate(expression, frame, "watch")
    except Refused as refusal:
        # An error names its rank, as RankError does.
        return str(refusal).partition(": ")[2]


def notebook_text(expression: str) -> str:
    """Return the last cell of the table that a notebook shows."""
    shown: list[Answer] = []
    with closing(RanksMagic(shown.append)) as magic:
        magic("0", expression)
    cells = re.findall(r"<td><(?:code|pre)>(.*?)</(?:code|pre)></td>", shown[0]._repr_html_(), re.DOTALL)
    return html.unescape(cells[-1])


async def tables_of_an_agent(home: Path, expressions: list[str]) -> dict[str, str]:
    """Return what the tool `eval` answers to each expression, further lines included."""
    environment = {**clean_environment({}, home), "DBG_HOME": str(home)}
    server = StdioServerParameters(command=sys.executable, args=["-m", "dbg_client", "mcp"], env=environment)
    tables = {}
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        for expression in expressions:
            (content,) = (await session.call_tool("eval", {"expression": expression})).content
            assert isinstance(content, TextContent)
            tables[expression] = content.text
    return tables
