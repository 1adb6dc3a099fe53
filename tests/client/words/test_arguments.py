from __future__ import annotations

import pytest

from dbg_client.words.arguments import Arguments, build_parser, read_arguments
from dbg_client.words.help import SHORT
from dbg_wire.errors import BadInput


def test_the_parser_gives_what_settings_take() -> None:
    assert read_arguments(["5", "--wait", "3", "-y"]) == Arguments(target="5", wait="3", yes=True)


def test_help_is_the_page_of_one_screen() -> None:
    assert build_parser().format_help() == SHORT


@pytest.mark.parametrize(
    ("verb", "flags"),
    [
        ("where", "-w"),
        ("where all", "all -w"),
        ("w all", "--where all"),
        ("list stopped --all", "--list stopped --all"),
        ("list", "-l"),
        ("eval 0-7 loss", "0-7 -e loss"),
        ("e 0-7 loss --stats", "0-7 -e loss --stats"),
        ("eval --live 0-7 loss", "--live -e loss 0-7"),
        ("eval loss", "-e loss"),
        ("command all n", "all -c n"),
        ("interrupt 4 -y", "-i 4 -y"),
        ("-y interrupt 4", "-i 4 -y"),
        ("continue stopped", "stopped --continue"),
        ("release held", "held --release"),
        ("kill 5", "--kill 5"),
        ("screen 2 --json", "2 --screen --json"),
        ("tmux 0-3", "--tmux 0-3"),
        ("wait 5 --for 60s", "5 --for 60s --wait"),
        ("wait", "--wait"),
        ("where all --", "all -w"),
    ],
)
def test_a_verb_and_its_flag_are_the_same(verb: str, flags: str) -> None:
    assert read_arguments(verb.split()) == read_arguments(flags.split())


def test_a_verb_without_a_flag_is_told_by_its_name() -> None:
    assert read_arguments(["attach", "5"]) == Arguments(verb="attach", target="5")
    assert read_arguments(["help"]) == Arguments(verb="help", operand="")
    assert read_arguments(["help", "where"]) == Arguments(verb="help", operand="where")


def test_a_host_that_is_called_like_a_verb_is_reached_by_its_rank() -> None:
    assert read_arguments(["list:0"]) == Arguments(target="list:0")
    assert read_arguments(["where", "list:0"]) == Arguments(where=True, target="list:0")


def test_words_behind_two_dashes_are_no_options() -> None:
    assert read_arguments(["eval", "all", "--", "-x"]).expression == "-x"


@pytest.mark.parametrize(
    ("words", "expression", "note"),
    [
        (["eval", "all", "loss,", "lr"], "loss, lr", "2 words are read as one expression, loss, lr; quote it"),
        (["eval", "loss,", "lr"], "loss, lr", "2 words are read as one expression"),
        (["eval", "0-7"], "0-7", "'0-7' is asked for as an expression; to ask ranks"),
        (["eval", "all", "loss, lr"], "loss, lr", None),
        (["eval", "loss"], "loss", None),
    ],
)
def test_how_an_expression_was_understood_is_told(words: list[str], expression: str, note: str | None) -> None:
    arguments = read_arguments(words)

    assert arguments.expression == expression
    assert [told[: len(note or "")] for told in arguments.notes] == ([note] if note is not None else [])


def test_ranks_that_are_waited_for_are_those_of_a_command() -> None:
    assert read_arguments(["command", "n", "--wait", "5"]) == Arguments(command="n", wait="5")


def test_the_words_of_a_command_are_joined() -> None:
    assert read_arguments(["command", "all", "b", "train.py:7"]) == Arguments(target="all", command="b train.py:7")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["all", "-e", "loss,", "lr"], "'lr' stands behind -e loss,; did you forget quotes: -e 'loss, lr'?"),
        (["-e", "loss,", "lr"], "did you forget quotes: -e 'loss, lr'?"),
        (["-e", "loss,", "lr", "all"], "did you forget quotes: -e 'loss, lr'?"),
        (["-e", "rank", "==", "0", "--live", "all"], "did you forget quotes: -e 'rank == 0'?"),
        (["all", "-c", "b", "train.py:7"], "did you forget quotes: -c 'b train.py:7'?"),
        (["wher"], "unknown verb or rank `wher`; did you mean `where`?"),
        (["where", "stoped"], "did you mean `stopped`?"),
        (["5", "where"], "the verb 'where' stands behind '5'; write `where 5`"),
        (["where", "0", "1"], "'0' and '1' are two targets; write one: 0,1"),
        (["@x", "@y", "-w"], "if the shell has made them of @?, put that into quotes: '@?'"),
        (["where", "all", "train.py"], "'train.py' is one word too many behind 'all'"),
        (["all", "--exat", "-e", "loss"], "there is no option --exat; did you mean --exact?"),
        (["mcp", "me"], "mcp takes no word behind it"),
        (["serve"], "`serve` is a verb of dbg-broker; type `dbg-broker serve`"),
        (["serve", "--listen", "x"], "`serve` is a verb of dbg-broker; type `dbg-broker serve`"),
        (["lst"], "unknown verb or rank `lst`; did you mean `list`?"),
        (["command", "n"], "command needs ranks and a command; write both, e.g. `command all n`"),
        (["command", "all"], "command needs ranks and a command"),
        (["command"], "command needs ranks and a command"),
        (["eval"], "eval needs an expression; write one, e.g. `eval 0-7 'loss, lr'`"),
        (["wait", "5", "60"], "for 60 seconds write `wait 5 --for 60s`, for both ranks 5,60"),
        (["eval", "loss", "-e", "lr"], "eval and -e are the same, and both are given"),
        (["all", "-e"], "expected one argument"),
        (["wh\x1ber", "5", "6"], "'5' is one word too many"),
    ],
)
def test_what_can_not_be_understood_is_said_with_what_to_type(words: list[str], says: str) -> None:
    with pytest.raises(BadInput) as error:
        read_arguments(words)

    assert says in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("words", [["-e", "loss", "all"], ["all", "-e", "loss"], ["-e", "loss", "--live", "all"]])
def test_a_target_behind_an_expression_is_no_forgotten_quote(words: list[str]) -> None:
    arguments = read_arguments(words)

    assert (arguments.target, arguments.expression) == ("all", "loss")


def test_the_words_of_a_program_are_taken_as_they_stand() -> None:
    words = ["exec", "--json", "0-3", "--", "sh", "-c", "echo --timeout 5", "--help", "--", "-w"]
    assert read_arguments(words) == Arguments(target="0-3", json=True, program=tuple(words[4:]))
    assert read_arguments(["--timeout", "5", *words]).timeout == "5"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["exec"], "exec needs ranks and, behind --, a command"),
        (["exec", "5", "nvidia-smi"], "exec needs ranks and, behind --, a command"),
        (["exec", "5", "nvidia-smi", "-L"], "exec needs ranks and, behind --, a command"),
        (["exec", "5", "--"], "exec needs ranks and, behind --, a command"),
        (["--", "exec", "0"], "exec needs ranks and, behind --, a command"),
        (["--", "exec", "0", "ls"], "exec needs ranks and, behind --, a command"),
        (["exec", "--", "ls"], "exec needs ranks before the --"),
        (["exec", "1", "2", "--", "ls"], "'1' and '2' are two targets"),
        (["exec", "1", "--perhost", "--", "ls"], "--perhost"),
    ],
)
def test_a_program_without_its_dashes_is_told_how_to_write_it(words: list[str], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        read_arguments(words)
