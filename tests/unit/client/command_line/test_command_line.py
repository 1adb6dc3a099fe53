from __future__ import annotations

from typing import Any

import pytest

from dbg_client.command_line.help import SHORT, help_on
from dbg_client.command_line.reading import read_verb
from dbg_client.verbs.table import VERBS
from dbg_client.verbs.verb import Format, Verb
from dbg_wire.errors import BadInput
from tests.conftest import Approved


def parse(words: list[str]) -> Any:
    """Return the verb of a command line."""
    return read_verb(words, {})


def text_of(verb: Verb) -> str:
    """Return the expression, the command, or the topic."""
    return next((getattr(verb, name) for name in ("expression", "command", "topic") if hasattr(verb, name)), "")


def parts(words: list[str]) -> tuple[str, str | None, str]:
    """Return verb, target and text."""
    verb = parse(words)
    return verb.name, getattr(verb, "target", None), text_of(verb)


@pytest.mark.parametrize(
    ("line", "verb", "target", "text"),
    [
        ("where", "where", None, ""),
        ("where all", "where", "all", ""),
        ("w all", "where", "all", ""),
        ("list --all stopped", "list", "stopped", ""),
        ("list stopped --all", "list", "stopped", ""),
        ("e 0-7 loss --live", "eval", "0-7", "loss"),
        ("eval --live 0-7 loss", "eval", "0-7", "loss"),
        ("eval loss", "eval", None, "loss"),
        ("command all b train.py:7", "command", "all", "b train.py:7"),
        ("command n --wait", "command", None, "n"),
        ("where all --", "where", "all", ""),
        ("attach 5", "attach", "5", ""),
        ("help where", "help", None, "where"),
        ("gpu013:5", "attach", "gpu013:5", ""),
        ("--follow 5", "attach", "5", ""),
        ("5 --watch", "attach", "5", ""),
        ("--timeout 3", "attach", None, ""),
        ("-- 5", "attach", "5", ""),
        ("list:0", "attach", "list:0", ""),
        ("where list:0", "where", "list:0", ""),
    ],
)
def test_the_first_word_is_a_verb_or_else_a_target(line: str, verb: str, target: str | None, text: str) -> None:
    assert parts(line.split()) == (verb, target, text)


@pytest.mark.parametrize(("line", "page"), [("--help", SHORT), ("5 -h", SHORT), ("list --help", help_on("list"))])
def test_help_is_the_short_page_or_that_of_the_verb(line: str, page: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_verb(line.split(), {}, page=help_on)

    assert capsys.readouterr().out == page


def test_words_after_two_dashes_are_not_options() -> None:
    assert parse(["eval", "all", "--", "-x"]).expression == "-x"


@pytest.mark.parametrize(
    "words",
    [
        ["wher"],
        ["where", "stoped"],
        ["5", "where"],
        ["--follow", "list"],
        ["where", "0", "1"],
        ["where", "all", "train.py"],
        ["eval", "all", "--stas", "loss"],
        ["--lis"],
        ["mcp", "me"],
        ["command", "n"],
        ["command", "all"],
        ["command"],
        ["eval"],
        ["wait", "5", "60"],
        ["eval", "all", "x", "--timeout"],
        ["wh\x1ber", "5", "6"],
        ["5", "--json"],
        ["0", "--engine", "gdb"],
    ],
)
def test_invalid_command_line_is_refused_with_a_remedy(approved: Approved, words: list[str]) -> None:
    with pytest.raises(BadInput) as error:
        parse(words)

    approved(str(error.value))
    assert str(error.value).isprintable()


def test_program_arguments_are_kept_unchanged() -> None:
    words = ["exec", "--json", "0-3", "--", "sh", "-c", "echo --timeout 5", "--help", "--", "-w"]
    verb = parse(words)
    assert (verb.target, verb.output.format, verb.program) == ("0-3", Format.JSON, tuple(words[4:]))


@pytest.mark.parametrize(
    "words",
    [
        ["exec"],
        ["exec", "5", "nvidia-smi"],
        ["exec", "5", "nvidia-smi", "-L"],
        ["exec", "5", "--"],
        ["exec", "--", "ls"],
        ["exec", "1", "2", "--", "ls"],
        ["exec", "1", "--perhost", "--", "ls"],
    ],
)
def test_program_without_dashes_is_refused_with_a_remedy(approved: Approved, words: list[str]) -> None:
    with pytest.raises(BadInput) as caught:
        parse(words)
    approved(str(caught.value))


def test_each_example_is_understood() -> None:
    import shlex

    for row in VERBS:
        assert parse(shlex.split(row.load().example)).name == row.load().name == row.name
