from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.command_line.session_line import read_scope, read_session_line
from dbg_client.exec import Exec
from dbg_client.verbs.control import Interrupt
from dbg_client.verbs.list import ListRanks
from dbg_client.verbs.values import Eval, PdbCommand
from dbg_client.verbs.verb import BrokerOptions, Verb
from dbg_command.targets import parse_target, select
from dbg_wire.errors import BadInput
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank


def parse_command(text: str) -> Verb | None:
    return read_session_line(text, {})


def parsed(text: str) -> tuple[str, str | None, str]:
    verb = parse_command(text)
    assert verb is not None
    asked = verb.expression if isinstance(verb, Eval) else verb.command if isinstance(verb, PdbCommand) else ""
    return verb.name, getattr(verb, "target", None), asked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("where", ("where", None, "")),
        ("where all", ("where", "all", "")),
        ("list", ("list", None, "")),
        ("screen 3", ("screen", "3", "")),
        ("release", ("release", None, "")),
        ("release 3", ("release", "3", "")),
        ("interrupt 5", ("interrupt", "5", "")),
        ("continue stopped", ("continue", "stopped", "")),
        ("kill gpu013:5", ("kill", "gpu013:5", "")),
        ("5", ("attach", "5", "")),
        ("attach 5", ("attach", "5", "")),
        ("w all", ("where", "all", "")),
        ("command all n", ("command", "all", "n")),
        ("eval 0-7 loss", ("eval", "0-7", "loss")),
        ("c all n", ("command", "all", "n")),
        ("c 0-3 b train.py:7, rank == 1", ("command", "0-3", "b train.py:7, rank == 1")),
        ("e 0-7 loss", ("eval", "0-7", "loss")),
        ("e  @2  loss, lr ", ("eval", "@2", "loss, lr")),
        ("e loss, lr", ("eval", None, "loss, lr")),
        ("e os.environ['RANK']", ("eval", None, "os.environ['RANK']")),
        ("e rank == 0", ("eval", None, "rank == 0")),
        ("e stopped", ("eval", None, "stopped")),
        ("e 0-1 -x", ("eval", "0-1", "-x")),
        ("e --frame=-2 0-7 loss", ("eval", "0-7", "loss")),
    ],
)
def test_a_verb_is_followed_by_ranks_and_a_text(text: str, expected: tuple[str, str | None, str]) -> None:
    assert parsed(text) == expected


def test_options_may_be_mixed_with_words() -> None:
    frames = [
        parse_command(text)
        for text in (
            "e --frame train_step 0-7 loss",
            "e --live --frame=train_step loss",
            "c --frame train_step 0-7 p loss",
        )
    ]
    listed, slow = parse_command("list --all"), parse_command("where all --timeout 3")
    broken_into = parse_command("interrupt 5 --frame train_step")

    assert parse_command("e --live 0-7 loss") == Eval(target="0-7", expression="loss", live=True)
    assert [command.frame for command in frames if isinstance(command, Eval | PdbCommand)] == ["train_step"] * 3
    assert isinstance(broken_into, Interrupt)
    assert broken_into.attach.frame == "train_step"
    assert isinstance(listed, ListRanks)
    assert listed.all
    assert slow is not None
    assert slow.broker == BrokerOptions(timeout=3)


@pytest.mark.parametrize("text", ["e --frame step 0-7 loss", "e --frame=step 0-7 loss"])
def test_options_with_a_value_precede_an_expression(text: str) -> None:
    settings = parse_command(text)

    assert settings == Eval(target="0-7", expression="loss", frame="step")


@pytest.mark.parametrize(
    "text",
    ["help", "?", "-h", "list --help", "  help  ", "-hh", "5 -yh", "eval --help", "e -h loss", "command --help all n"],
)
def test_help_is_recognized(text: str) -> None:
    assert parse_command(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "what is this",
        "c",
        "wher",
        "stoped",
        "wait 5",
        "all -w",
        "list all --wait",
        "5 --for 3",
        "tmux all",
        "attach",
        "list --al",
        "c n",
        "e",
        "continue",
        "kill",
        "where 'all",
        "5 --take",
        "e --frame= 0 x",
        "e --live=1 0 x",
        "where --frame f",
        "5 --frame f",
        "list --json",
        "--version",
        "where all 5",
        "-e",
        "\x1b[2J",
    ],
)
def test_invalid_line_is_refused(approved: Approved, text: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_command(text)

    approved(str(error.value).replace("\\\\", "\\"))


@given(st.text(min_size=1, max_size=60) | st.text("ec -w0'alhx*/@!,:", min_size=1, max_size=12))
def test_any_line_is_a_command_or_an_error(text: str) -> None:
    message = ""
    try:
        parse_command(text)
    except BadInput as error:
        message = str(error)

    assert message.isprintable()


@given(st.text(min_size=1, max_size=40).map(str.strip).filter(lambda text: bool(text) and text[0].isalpha()))
def test_expression_is_kept_unchanged(expression: str) -> None:
    assert parsed(f"e 0-3 {expression}") == ("eval", "0-3", expression)


@pytest.mark.parametrize(
    ("target", "expected"),
    [("all", [0, 1]), ("0", [0]), ("stopped,held", [0, 1]), ("!0", [1]), ("other/all", [7]), ("*/all", [0, 1, 7])],
)
def test_target_is_in_the_sessions_job_unless_it_names_another(target: str, expected: list[int]) -> None:
    here = [make_rank(0), make_rank(1, state=RankState.HELD)]
    there = make_rank(7, job="other", key="there")
    again = make_rank(0, job="third", key="again", state=RankState.EXITED)

    found = select(read_scope(parse_target(target), "4711.0"), [*here, there, again]).ranks

    assert sorted(rank.rank for rank in found if rank.key != "again") == expected


def test_program_keeps_its_own_options() -> None:
    settings = parse_command("exec 3 --timeout 5 -- ps --help -h '--version'")
    assert isinstance(settings, Exec)
    assert (settings.target, settings.broker.timeout) == ("3", 5.0)
    assert settings.program == ("ps", "--help", "-h", "--version")
