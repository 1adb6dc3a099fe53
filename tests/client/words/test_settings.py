from __future__ import annotations

import math
from typing import Any

import pytest

from dbg_client.words.arguments import Arguments
from dbg_client.words.engine import Wish
from dbg_client.words.settings import CommandSettings, Format, Verb, settle
from dbg_wire.errors import BadInput
from dbg_wire.messages import Mode


def settled(environ: dict[str, str] | None = None, *, tty: bool = True, **arguments: Any) -> CommandSettings:
    return settle(Arguments(**arguments), environ or {}, stdout_is_tty=tty)


def test_attach_is_what_happens_without_an_action() -> None:
    settings = settled(target="gpu013:5")

    assert (settings.verb, settings.mode, settings.target) == (Verb.ATTACH, Mode.DRIVE, "gpu013:5")


@pytest.mark.parametrize(
    ("argument", "verb"),
    [
        ("list", Verb.LIST),
        ("screen", Verb.SCREEN),
        ("resume", Verb.CONTINUE),
        ("kill", Verb.KILL),
        ("where", Verb.WHERE),
        ("interrupt", Verb.INTERRUPT),
        ("release", Verb.RELEASE),
    ],
)
def test_each_action_has_its_verb(argument: str, verb: Verb) -> None:
    assert settled({}, **{argument: True}).verb is verb


@pytest.mark.parametrize("action", [{"expression": "x"}, {"command": "n"}, {"interrupt": True}, {}, {"tmux": True}])
def test_a_frame_is_for_what_looks_at_a_stop(action: dict[str, Any]) -> None:
    assert settled(frame=" Model.step ", **action).frame == "Model.step"


def test_an_expression_and_a_command_are_actions_with_a_text() -> None:
    value, command = settled(expression="a + b"), settled(command="p a")

    assert (value.verb, value.question) == (Verb.EVAL, "a + b")
    assert (command.verb, command.question) == (Verb.COMMAND, "p a")


@pytest.mark.parametrize(
    "arguments",
    [
        {"list": True, "kill": True},
        {"screen": True, "resume": True},
        {"watch": True, "take": True},
        {"list": True, "json": True, "plain": True},
        {"list": True, "watch": True},
        {"kill": True, "take": True},
        {"screen": True, "follow": True},
        {"json": True},
        {"plain": True},
        {"kill": True, "plain": True},
        {"all": True},
        {"screen": True, "all": True},
        {"expression": "x", "where": True},
        {"expression": "x", "command": "n"},
        {"interrupt": True, "list": True},
        {"expression": ""},
        {"expression": " "},
        {"command": ""},
        {"expression": "x" * 16385},
        {"where": True, "tol": "1"},
        {"tol": "1"},
        {"command": "n", "stats": True},
        {"list": True, "live": True},
        {"command": "n", "save": "f"},
        {"where": True, "against": "f"},
        {"where": True, "exact": True},
        {"kill": True, "fail_if_differ": True},
        {"every": "1"},
        {"all_rows": True},
        {"where": True, "all_rows": True},
        {"command": "n", "every": "1"},
        {"expression": "x", "tol": "1", "stats": True},
        {"expression": "x", "tol": "1", "exact": True},
        {"expression": "x", "every": "1", "save": "f"},
        {"expression": "x", "every": "1", "fail_if_differ": True},
        {"list": True, "frame": "f"},
        {"where": True, "frame": "f"},
        {"screen": True, "frame": "f"},
        {"kill": True, "frame": "f"},
        {"resume": True, "frame": "f"},
        {"release": True, "frame": "f"},
        {"watch": True, "frame": "f"},
        {"expression": "x", "frame": " "},
        {"expression": "x", "frame": "f" * 301},
        {"expression": "x", "take": True},
        {"expression": "x", "all": True},
        {"expression": "x", "plain": True},
        {"interrupt": True, "wait": "5", "target": "1"},
    ],
)
def test_contradictory_options_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as caught:
        settled({}, **arguments)

    assert caught.value.exit_status == 2


@pytest.mark.parametrize("word", ["5", "gpu1:5", "stopped"])
def test_a_target_swallowed_by_wait_is_the_target(word: str) -> None:
    settings = settled(wait=word)

    assert (settings.target, settings.wait) == (word, math.inf)


def test_wait_takes_seconds_where_a_target_stands_elsewhere() -> None:
    assert settled(wait="5", target="gpu1:7").wait == 5.0


def test_wait_without_a_target_is_for_whatever_stops() -> None:
    assert settled(wait="").target == "stopped"


def test_a_list_that_waits_is_still_of_all_ranks() -> None:
    assert settled(wait="", list=True).target is None


@pytest.mark.parametrize("arguments", [{"wait": ""}, {"wait": "2"}, {"wait": "", "target": "2"}])
def test_for_bounds_a_wait(arguments: dict[str, Any]) -> None:
    settings = settled(bound="5m", **arguments)

    assert settings.wait == 300.0
    assert settings.notes == ()


def test_a_number_behind_wait_says_how_it_was_understood() -> None:
    assert settled(wait="2").notes == ("Waits for rank 2; for 2 seconds write --for 2s.",)
    assert settled(wait="gpu1:5").notes == settled(wait="2", target="5").notes == ()


@pytest.mark.parametrize(
    "arguments",
    [
        {"bound": "60s", "target": "5"},
        {"bound": "60s", "target": "5", "wait": "60"},
        {"bound": "soon", "wait": ""},
        {"verb": "attach", "where": True},
        {"verb": "help", "wait": ""},
    ],
)
def test_a_wait_has_one_bound_and_a_verb_is_one(arguments: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        settled(**arguments)


@pytest.mark.parametrize("text", ["little", "-1", "nan", "inf"])
def test_a_tolerance_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadInput, match="--tol"):
        settled(expression="x", tol=text)
    assert settled(expression="x", tol="1e-6").tolerance == 1e-6


@pytest.mark.parametrize("text", ["0.05", "0", "soon"])
def test_every_is_not_more_often_than_anybody_reads(text: str) -> None:
    with pytest.raises(BadInput, match="--every"):
        settled(where=True, every=text)
    assert settled(where=True, every="0.5").every == 0.5


def test_what_is_for_attaching_is_for_breaking_in_too() -> None:
    settings = settled({"DBG_ESCAPE": "^^"}, interrupt=True, engine="pdb", take=True, target="5")

    assert (settings.wish.asked, settings.mode, settings.prefix) == ("pdb", Mode.TAKE, b"\x1e")


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan", "inf", "1e99"])
def test_seconds_that_are_none_are_refused_by_name(text: str) -> None:
    with pytest.raises(BadInput, match="--wait"):
        settled(wait=text, target="5")
    with pytest.raises(BadInput, match="--timeout"):
        settled(timeout=text)
    with pytest.raises(BadInput, match="DBG_TIMEOUT"):
        settled({"DBG_TIMEOUT": text})


def test_an_argument_goes_before_its_variable() -> None:
    environ = {"DBG_TIMEOUT": "7", "DBG_ESCAPE": "^^"}

    assert (settled(environ).timeout, settled(environ).prefix) == (7.0, b"\x1e")
    both = settled(environ, timeout="3", escape="none")
    assert (both.timeout, both.prefix) == (3.0, None)


def test_a_bad_escape_variable_does_not_stop_a_list() -> None:
    environ = {"DBG_ESCAPE": "rubbish"}

    assert settled(environ, list=True).verb is Verb.LIST
    with pytest.raises(BadInput):
        settled(environ)
    with pytest.raises(BadInput):
        settled(list=True, escape="rubbish")


@pytest.mark.parametrize(
    ("environ", "tty", "color"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(environ: dict[str, str], tty: bool, color: bool) -> None:
    assert settled(environ, tty=tty).color is color


def test_formats() -> None:
    assert settled(list=True, json=True).format is Format.JSON
    assert settled(list=True, plain=True).format is Format.PLAIN
    assert settled(list=True).format is Format.TABLE


# ------------------------------------------------------------------------------------------------------ line debuggers


def test_the_engine_asked_for_and_the_default_are_kept_apart() -> None:
    wish = settled({"DBG_ENGINE": "pdb"}, engine="pudb").wish

    assert (wish.asked, wish.default) == ("pudb", "pdb")
    assert settled({"DBG_ENGINE": "pdb"}).wish == Wish(None, "pdb")
    assert settled({"DBG_ENGINE": ""}).wish == Wish()


@pytest.mark.parametrize(("environ", "engine"), [({}, "gdb"), ({"DBG_ENGINE": "gdb\x1b"}, None)])
def test_an_engine_that_we_do_not_have_is_refused(environ: dict[str, str], engine: str | None) -> None:
    with pytest.raises(BadInput, match="pudb or pdb") as caught:
        settled(environ, engine=engine)

    assert "\x1b" not in str(caught.value)


def test_a_variable_for_sessions_does_not_stand_in_the_way_of_a_list() -> None:
    assert settled({"DBG_ENGINE": "gdb"}, list=True).verb is Verb.LIST


@pytest.mark.parametrize("arguments", [{"list": True, "engine": "pdb"}, {"screen": True, "commands": "x"}])
def test_what_is_for_sessions_alone_is_refused_elsewhere(arguments: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="is for attaching"):
        settled({}, **arguments)


def test_vi_keys_by_option_or_variable() -> None:
    assert settled(vi=True).vi
    assert settled({"DBG_EDITING": "vi"}).vi
    assert not settled({"DBG_EDITING": "emacs"}).vi


def test_the_users_own_commands_come_along_unless_left_out() -> None:
    assert settled().rc
    assert not settled(no_rc=True).rc
    assert settled(commands="cmds").commands == "cmds"
