from __future__ import annotations

from dataclasses import fields

from dbg_client.words.arguments import Arguments
from dbg_client.words.options import ASKING, ATTACH, OPTIONS, OTHER, options_of
from dbg_client.words.verbs import BY_FLAG, BY_NAME, VERBS


def test_each_option_fills_a_field_of_its_own() -> None:
    of_options = [option.field for option in OPTIONS]
    of_verbs = {row.field for row in VERBS if row.field is not None}
    others = {"target", "verb", "operand", "spoken", "wait", "run", "breakpoints_to", "notes", "pids"}

    assert len(of_options) == len(set(of_options))
    assert {*of_options, *of_verbs, *others} == {field.name for field in fields(Arguments)}
    assert not set(of_options) & of_verbs


def test_no_flag_is_given_twice() -> None:
    flags = [flag for option in OPTIONS for flag in option.flags]

    assert len(flags) == len(set(flags))
    assert not set(flags) & set(BY_FLAG)


def test_each_option_is_of_verbs_that_exist_and_in_a_group_of_the_help() -> None:
    for option in OPTIONS:
        assert set(option.verbs) <= set(BY_NAME)
        assert option.group in (ASKING, ATTACH, OTHER)


def test_the_options_of_a_verb_are_its_own_and_those_of_all() -> None:
    names = {option.name for option in options_of("eval")}

    assert {"--stats", "--json", "--timeout"} <= names
    assert not {"--plain", "--watch"} & names


def test_the_help_of_an_option_says_which_verbs_take_it() -> None:
    helps = {option.name: option.full_help for option in OPTIONS}

    assert helps["--exact"].startswith("with eval, command, exec: ")
    assert helps["--json"] == "one JSON document on stdout"
