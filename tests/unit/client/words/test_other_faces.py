"""What an error names can be done where the error is read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dbg_client
import dbg_dial
import dbg_wire
from dbg_client.api.notebook import CALLS, CellError
from dbg_client.core.errors import HeldBack, NotHeld, NotStopped, RankVanished, TimedOut
from dbg_client.faces.dap.console import COMMANDS
from dbg_client.faces.mcp.rest import TOOLS_OF_COMMANDS
from dbg_client.faces.web import live
from dbg_client.words.other_faces import in_words_of
from dbg_wire.errors import DbgError, NoSuchRank
from tests.conftest import Approved


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (NotStopped("vm:3 runs", "3", runs=True), "`pause 3` in the debug"),
        (NotStopped("vm:3 runs", "3"), "; this window waits for the next"),
        (HeldBack("vm:3 is held", "a b/3", has_place=True), "`where a b/3` in"),
        (HeldBack("vm:3 is held", "3", has_place=False), "`continue 3` in"),
        (NotHeld(["vm:3"], others=True), "`where all` in the debug console shows"),
        (RankVanished("vm:3"), "`where all` in the debug console shows"),
        (NoSuchRank("9", 0, exited=2), "are listed by `where all`"),
        (TimedOut("`dbg-attach wait 3` waits"), "this window waits"),
        (TimedOut("`dbg-attach interrupt 0-3`"), "`pause 0-3` in the debug console"),
        (TimedOut("`dbg-attach list` shows it"), "`where all` in the debug console shows it"),
        (TimedOut("`dbg-attach attach 3`"), "`where 3` in the debug console"),
    ],
)
def test_an_error_names_what_the_user_of_another_face_can_do(approved: Approved, error: DbgError, command: str) -> None:
    told = in_words_of(error, TOOLS_OF_COMMANDS), in_words_of(error, COMMANDS)
    approved(told[0])
    assert command in told[1]
    assert "dbg-attach" not in "".join(told)
    assert "dbg_client.connect()" in str(CellError(error))
    assert "dbg-attach" not in str(CellError(error))


def test_a_command_that_no_other_face_has_stays() -> None:
    for text in ("`dbg-attach adopt --mine` finds some", "`dbg-attach 'x` is no command", "`dbg-attach --ask-token`"):
        assert in_words_of(DbgError(text), COMMANDS) == text
    for words in (TOOLS_OF_COMMANDS, COMMANDS, CALLS, live.COMMANDS):
        assert in_words_of(DbgError("`dbg-attach kill 3`"), words) == "`dbg-attach kill 3` in a terminal"


OF_A_TERMINAL = {"--version", "help", "adopt", "dap", "web", "config", "tmux", "--follow"}
"""What commands are about that only somebody at a terminal can use; beside them ``dbg-attach`` alone."""


def sentences(module: Path) -> Iterator[str]:
    """Return the texts of a module that are no docstrings, with 3 for what is put into them."""
    tree = ast.parse(module.read_text())
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "3" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def test_every_command_in_a_sentence_is_known_to_all_faces_or_is_for_a_terminal_alone() -> None:
    folders = [Path(package.__file__ or "").parent for package in (dbg_client, dbg_wire, dbg_dial)]
    commands = {
        command
        for folder in folders
        for module in folder.rglob("*.py")
        for text in sentences(module)
        for command in re.findall("`dbg-attach [^`]*`", text)
    }
    assert len(commands) > 10
    for command in sorted(commands):
        if not any(word in OF_A_TERMINAL for word in command.strip("`").split()):
            for words in (TOOLS_OF_COMMANDS, COMMANDS, CALLS, live.COMMANDS):
                assert in_words_of(DbgError(command), words) != command, command
