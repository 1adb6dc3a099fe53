"""The parsers take each command that a page shows, and our functions the arguments of each call in its Python."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import dbg_agent
from dbg_agent.program.script import FLAGS, OPTIONS
from dbg_broker.cli.main import parse
from dbg_client.command_line.reading import read_verb
from dbg_wire.errors import BadInput
from tests.docs.pages import blocks, pages
from tests.docs.reference import PAGE

NOT_COMMANDS = frozenset({"python", "json", "yaml"})
"""Languages of blocks in which no command stands."""

BEGINS = re.compile(
    r"(?:^\s*|^\$ |[;|&(] ?|\w=\S* |^srun .* )(?P<command>(?:dbg-attach|dbg-broker|python -m dbg_agent)(?=\s).*)"
)
ENDS = frozenset({"|", ";", "&&", "&", "||", ">", ">>", "<"})
WRITTEN = [page for page in pages() if page != PAGE]
"""The pages that are written by hand."""


def lines_with_commands(page: Path) -> Iterator[str]:
    """Yield the lines of blocks, continued ones joined, and the code inside of sentences.

    A span with two backticks is an error sentence.
    """
    whole = page.read_text(encoding="utf-8")
    outside, at = [], 0
    for block in blocks(whole):
        outside.append(whole[at : block.start])
        at = block.end
        if block.language not in NOT_COMMANDS:
            yield from re.sub(r"\\\n\s*", "", block.text).splitlines()
    prose = re.sub(r"``.*?``", "", "".join([*outside, whole[at:]]))
    yield from re.findall(r"^    (\S.*)", prose, re.MULTILINE)
    yield from re.findall(r"`([^`\n]+)`", prose)


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command of ours on a page."""
    for line in lines_with_commands(page):
        found = BEGINS.search(line)
        if found is None or line.startswith(("dbg-broker: ", "dbg-attach: ", "usage: ", "#", "dbg-broker 0")):
            continue
        # Of `eval "$(… completion bash)"` the quote that closes is not the command's.
        command = found["command"].partition(')"')[0]
        lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&<>()")
        lexer.whitespace_split = True
        words = list(lexer)
        end = next((at for at, word in enumerate(words) if word in ENDS or word.startswith(")")), len(words))
        yield [word for word in words[:end] if word != "…"]


def is_taken(words: list[str]) -> bool:
    """Tell whether the parser of a command takes these words."""
    try:
        if words[1:] == ["adopt"] or (words[1:2] == ["run"] and "--" not in words[2:-1]):
            # The verb in a sentence, without what it needs.
            return True
        if words[0] == "dbg-attach":
            read_verb(words[1:], {})
        elif words[0] == "dbg-broker":
            parse(words[1:])
        else:
            given = [word for word in words[3:] if word.startswith("--")]
            return set(given) <= {*OPTIONS, *FLAGS, "--help"}
    except BadInput:
        return False
    except SystemExit as asked_for_help:
        return asked_for_help.code == 0
    return True


def test_all_commands_on_all_pages_are_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert [(page.name, words) for page in WRITTEN for words in commands(page) if not is_taken(words)] == []


def test_commands_are_found_in_text_and_shell_blocks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Type `dbg-attach interrupt 5` or\n```sh\nX=$(dbg-broker token) sbatch j\n"
        "  dbg-attach eval 0 \\\n  'a, b' | cat\n```\n"
    )
    assert list(commands(page)) == [
        ["dbg-broker", "token"],
        ["dbg-attach", "eval", "0", "a, b"],
        ["dbg-attach", "interrupt", "5"],
    ]
    assert sum(1 for page in WRITTEN for _ in commands(page)) > 100


@pytest.mark.parametrize(
    "line", ["dbg-attach 5 --no-such-option", "dbg-broker serv", "python -m dbg_agent --live x.py"]
)
def test_an_unknown_option_is_rejected(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_taken(shlex.split(line))


OURS = ("set_trace", "install", "post_mortem")
STOCK = frozenset({"host", "port", "term_size", "reverse"})
"""Arguments of the set_trace of pudb.remote, which some pages show."""


def arguments_of(name: str) -> set[str]:
    """Return the names of the arguments of one of our functions."""
    return set(inspect.signature(getattr(dbg_agent, name)).parameters)


def unknown_arguments(text: str) -> list[str]:
    """Return the arguments in calls of our functions that those don't take."""
    unknown = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            given = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
            if name in OURS and not given <= STOCK:
                unknown += sorted(given - arguments_of(name))
    return unknown


def test_calls_in_the_pages_have_only_known_arguments() -> None:
    for page in pages():
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.language == "python":
                assert unknown_arguments(block.text) == [], page


def test_an_unknown_argument_is_found() -> None:
    assert unknown_arguments("import dbg_agent\ndbg_agent.install(postmortem=True)\n") == ["postmortem"]
