"""Each command that a page shows is one that the parsers take, whatever the block or the sentence it stands in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_agent.program.script import FLAGS, OPTIONS
from dbg_broker.cli.main import parse
from dbg_client.words.command_line import parse as parse_attach
from dbg_wire.errors import BadInput
from tests.docs.pages import ROOT, blocks, pages
from tests.docs.reference import PAGE, text

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
        if words[0] == "dbg-attach":
            parse_attach(words[1:])
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


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_a_page_are_taken(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [words for words in commands(page) if not is_taken(words)] == []


def test_commands_are_found_where_they_stand(tmp_path: Path) -> None:
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
def test_an_option_that_does_not_exist_is_found(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_taken(shlex.split(line))


def test_the_reference_of_the_commands_is_what_they_say_of_themselves() -> None:
    assert PAGE.read_text(encoding="utf-8") == text(), "run `python -m tests.docs.reference`"
