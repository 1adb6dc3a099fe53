"""What ``import dbg_client`` offers to programs of users, and what its core must not use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dbg_client
from dbg_client import Asker, Directory, choose, link_to_broker, list_ranks
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.targets import parse_target
from tests.client.fake_broker import FakeBroker, make_rank
from tests.support.time_unit import seconds

PACKAGE = Path(dbg_client.__file__).parent
CORE = sorted(
    path
    for folder in ("core", "attachment", "views", "words")
    for path in (PACKAGE / folder).rglob("*.py")
    if path.name != "__init__.py"
)
STREAMS = {"stdin", "stdout", "stderr"}
TERMINAL = ("prompt_toolkit", "termios", "tty", "pty", "curses")
PATIENCE = seconds(10)


async def test_a_program_lists_the_ranks_and_asks_them(environ: dict[str, str]) -> None:
    with FakeBroker(make_rank(5), make_rank(6)) as broker:
        broker.answers[Action.EVAL] = RankAnswer(key="", kind=Kind.VALUE, text="0.25")
        link = link_to_broker(None, PATIENCE, environ | broker.environment)
        await link.open()
        directory = Directory()
        await list_ranks(link, directory, PATIENCE)

        answers = await Asker(link, directory, PATIENCE).ask(Action.EVAL, directory.ranks, "loss")

        assert [answer.text for answer in answers] == ["0.25", "0.25"]
        assert choose(parse_target("5"), directory.ranks).rank == make_rank(5)
        await link.close()


def test_every_name_offered_is_there_and_says_what_it_is_for() -> None:
    assert {name: bool(getattr(dbg_client, name).__doc__) for name in dbg_client.__all__} == dict.fromkeys(
        dbg_client.__all__, True
    )


def test_what_is_not_offered_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="'dbg_client' has no attribute 'Session'"):
        _ = dbg_client.Session


def test_nothing_is_loaded_before_it_is_used() -> None:
    script = "import sys, dbg_client; print(sorted(name for name in sys.modules if name.startswith('dbg_')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "['dbg_client']"


def test_the_core_loads_nothing_of_a_terminal() -> None:
    modules = [".".join(("dbg_client", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in CORE]
    script = (
        "import importlib, sys\n"
        f"for module in {modules!r}: importlib.import_module(module)\n"
        f"print('loaded:', *sorted(set({TERMINAL!r}) & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "loaded:"


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
