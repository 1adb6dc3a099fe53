from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.words.commands import parse_command, read_scope
from dbg_client.words.settings import CommandSettings, Verb
from dbg_wire.errors import BadInput
from dbg_wire.records.ranks import RankState
from dbg_wire.targets.selection import parse_target, select
from tests.client.fake_broker import make_rank


def parsed(text: str) -> tuple[Verb, str | None, str]:
    settings = parse_command(text, {})
    assert settings is not None
    return settings.verb, settings.target, settings.question


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("where", (Verb.WHERE, None, "")),
        ("where all", (Verb.WHERE, "all", "")),
        ("-w all", (Verb.WHERE, "all", "")),
        ("all -w", (Verb.WHERE, "all", "")),
        ("stops", (Verb.STOPS, None, "")),
        ("stops 0-3", (Verb.STOPS, "0-3", "")),
        ("list", (Verb.LIST, None, "")),
        ("screen 3", (Verb.SCREEN, "3", "")),
        ("release", (Verb.RELEASE, None, "")),
        ("release 3", (Verb.RELEASE, "3", "")),
        ("--release held", (Verb.RELEASE, "held", "")),
        ("interrupt 5", (Verb.INTERRUPT, "5", "")),
        ("continue stopped", (Verb.CONTINUE, "stopped", "")),
        ("kill gpu013:5", (Verb.KILL, "gpu013:5", "")),
        ("5", (Verb.ATTACH, "5", "")),
        ("attach 5", (Verb.ATTACH, "5", "")),
        ("w all", (Verb.WHERE, "all", "")),
        ("command all n", (Verb.COMMAND, "all", "n")),
        ("eval 0-7 loss", (Verb.EVAL, "0-7", "loss")),
        ("c all n", (Verb.COMMAND, "all", "n")),
        ("c 0-3 b train.py:7, rank == 1", (Verb.COMMAND, "0-3", "b train.py:7, rank == 1")),
        ("all -c n", (Verb.COMMAND, "all", "n")),
        ("e 0-7 loss", (Verb.EVAL, "0-7", "loss")),
        ("e  @2  loss, lr ", (Verb.EVAL, "@2", "loss, lr")),
        ("e loss, lr", (Verb.EVAL, None, "loss, lr")),
        ("e os.environ['RANK']", (Verb.EVAL, None, "os.environ['RANK']")),
        ("e rank == 0", (Verb.EVAL, None, "rank == 0")),
        ("e stopped", (Verb.EVAL, None, "stopped")),
        ("e 0-1 -x", (Verb.EVAL, "0-1", "-x")),
        ("e --frame=-2 0-7 loss", (Verb.EVAL, "0-7", "loss")),
        ("all -e 'loss, lr'", (Verb.EVAL, "all", "loss, lr")),
    ],
)
def test_words_and_options_ask_for_the_same(text: str, expected: tuple[Verb, str | None, str]) -> None:
    assert parsed(text) == expected


def test_options_may_stand_with_words() -> None:
    stats = parse_command("e --stats --live 0-7 loss", {})
    frames = [
        parse_command(text, {})
        for text in (
            "e --frame train_step 0-7 loss",
            "e --live --frame=train_step loss",
            "c --frame train_step 0-7 p loss",
            "interrupt 5 --frame train_step",
            "0-7 -e loss --frame train_step",
        )
    ]
    listed = parse_command("list --all", {})
    slow = parse_command("where all --timeout 3", {})

    assert stats == CommandSettings(verb=Verb.EVAL, target="0-7", question="loss", stats=True, live=True, color=True)
    assert [command.frame for command in frames if command is not None] == ["train_step"] * 5
    assert listed is not None
    assert listed.all
    assert slow is not None
    assert slow.timeout == 3


@pytest.mark.parametrize("text", ["e --tol 1e-3 0-7 loss", "e --tol=1e-3 0-7 loss"])
def test_options_with_a_value_stand_before_an_expression(text: str) -> None:
    settings = parse_command(text, {})

    assert settings == CommandSettings(verb=Verb.EVAL, target="0-7", question="loss", tolerance=1e-3, color=True)


@pytest.mark.parametrize("text", ["help", "?", "-h", "list --help", "  help  ", "-hh", "5 -lh"])
def test_help_is_asked_for(text: str) -> None:
    assert parse_command(text, {}) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("what is this", "'what' is no verb and no rank; `help`"),
        ("c", "command needs a command, e.g. `command all n`"),
        ("wher", "unknown verb or rank `wher`; did you mean `where`?"),
        ("stoped", "did you mean `stopped`?"),
        ("wait 5", "wait is not for the command line of a session"),
        ("--wait 5", "--wait is not for"),
        ("5 --for 3", "--for is not for"),
        ("tmux all", "--tmux is not for"),
        ("attach", "attach needs ranks"),
        ("list --al", "did you mean --all?"),
        ("c n", "command needs ranks and a command"),
        ("e", "eval needs an expression, e.g. `eval 0-7 'loss, lr'`"),
        ("continue", "continue needs ranks"),
        ("kill", "kill needs ranks"),
        ("where 'all", "a quote that is not closed"),
        ("where --every 1", "--every is not for the command line of a session"),
        ("5 --take", "--take is not for"),
        ("e --frame= 0 x", "--frame needs a function or a number"),
        ("e --live=1 0 x", "--live takes no value"),
        ("where --frame f", "--frame is for -e, -c,"),
        ("5 --frame f", "--frame is for eval, command and interrupt here"),
        ("list --json", "--json is not for"),
        ("--version", "--version is not for a session"),
        ("where all 5", "'all' and '5' are two targets; write one: all,5"),
        ("-e", "expected one argument"),
        ("-w -l", "two actions"),
        ("\x1b[2J", "'\\x1b[2J' is no verb and no rank"),
    ],
)
def test_what_can_not_be_done_is_said(text: str, says: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_command(text, {})

    assert says in str(error.value).replace("\\\\", "\\")


@given(st.text(min_size=1, max_size=60) | st.text("ec -w0'alhx*/@!,:", min_size=1, max_size=12))
def test_whatever_is_typed_is_a_command_or_a_sentence(text: str) -> None:
    said = ""
    try:
        parse_command(text, {})
    except BadInput as error:
        said = str(error)

    assert said.isprintable()


@given(st.text(min_size=1, max_size=40).map(str.strip).filter(lambda text: bool(text) and text[0].isalpha()))
def test_an_expression_is_asked_as_it_stands(expression: str) -> None:
    assert parsed(f"e 0-3 {expression}") == (Verb.EVAL, "0-3", expression)


@pytest.mark.parametrize(
    ("target", "expected"),
    [("all", [0, 1]), ("0", [0]), ("stopped,held", [0, 1]), ("!0", [1]), ("other/all", [7]), ("*/all", [0, 1, 7])],
)
def test_a_target_is_of_the_sessions_job_unless_it_says_more(target: str, expected: list[int]) -> None:
    here = [make_rank(0), make_rank(1, state=RankState.HELD)]
    there = make_rank(7, job="other", key="there")
    again = make_rank(0, job="third", key="again", state=RankState.EXITED)

    found = select(read_scope(parse_target(target), "4711.0"), [*here, there, again]).ranks

    assert sorted(rank.rank for rank in found if rank.key != "again") == expected


def test_a_programs_own_options_are_its_own() -> None:
    settings = parse_command("exec 3 --timeout 5 -- ps --help -h '--version'", {})
    assert settings is not None
    assert (settings.verb, settings.target, settings.timeout) == (Verb.EXEC, "3", 5.0)
    assert settings.program == ("ps", "--help", "-h", "--version")
