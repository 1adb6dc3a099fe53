from __future__ import annotations

import pytest

from dbg_broker.cli.main import main
from dbg_broker.cli.parser import complete_words, parser_of_the_command, refuse_mistyped
from dbg_wire.errors import BadInput

PARSER = parser_of_the_command()


def offered(line: str) -> list[str]:
    return [each.partition("\t")[0] for each in complete_words(PARSER, line.split(" "))]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("s", ["serve", "status"]),
        ("token --rol", ["--role"]),
        ("token --role ", ["rank", "driver", "watcher"]),
        ("completion z", ["zsh"]),
        ("run --output ", [":files"]),
        ("run -- ./tr", [":files"]),
        ("serve --while", []),
        ("status --home ", [":files"]),
        ("serve --listen ", []),
        ("--ver", ["--version"]),
        ("zebra ", ["serve", "run", "status", "token", "certificate", "log", "check", "config", "completion"]),
    ],
)
def test_what_a_word_may_become(line: str, words: list[str]) -> None:
    assert offered(line) == words


def test_each_verb_and_option_says_what_it_does() -> None:
    assert all("\t" in line for line in complete_words(PARSER, [""]))
    (role,) = complete_words(PARSER, ["token", "--role"])
    assert role.endswith("(default: rank)")


@pytest.mark.parametrize(
    ("words", "left", "says"),
    [
        (["serv"], [], "unknown verb `serv`; did you mean `serve`?"),
        (["list"], [], "`list` is a verb of dbg-attach; type `dbg-attach list`"),
        (["zebra\x1b"], [], "unknown verb `zebra\\x1b`; type one of serve, run,"),
        (["serve", "--lisen=x"], ["--lisen=x"], "there is no option --lisen; did you mean `--listen`?"),
        (["status", "--zebra"], ["--zebra"], "there is no option --zebra; see `dbg-broker --help`"),
        (["status", "x"], ["x"], "'x' is one word too many"),
    ],
)
def test_what_is_mistyped_is_told_what_it_may_be(words: list[str], left: list[str], says: str) -> None:
    with pytest.raises(BadInput) as error:
        refuse_mistyped(PARSER, words, left)

    assert says in str(error.value)
    assert str(error.value).isprintable()


def test_what_is_known_passes() -> None:
    refuse_mistyped(PARSER, ["serve", "--listen", "x"], [])
    refuse_mistyped(PARSER, ["--version"], [])
    refuse_mistyped(PARSER, [], [])


def test_the_command_says_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serv"]) == 2
    assert main(["status", "--jsn"]) == 2
    assert main(["--complete", "serve", "--cl"]) == 0

    captured = capsys.readouterr()
    assert "did you mean `serve`?" in captured.err
    assert "did you mean `--json`?" in captured.err
    assert [line.partition("\t")[0] for line in captured.out.splitlines()] == [
        "--classic",
        "--classic-size",
        "--cluster",
        "--cluster-credentials",
    ]
