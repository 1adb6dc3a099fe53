from __future__ import annotations

from dbg_client.words.help import full_help
from dbg_client.words.parsers import ASKING, ATTACH, LEADING, OPTIONS_OF, OTHER, all_options, parser_of
from dbg_client.words.verbs import BY_NAME, VERBS
from dbg_wire.command_line.parser import options_of
from tests.conftest import Approved

OPTIONS = {max(one.action.option_strings, key=len): one for one in all_options()}


def test_each_verb_has_options_and_no_option_is_called_like_a_verb() -> None:
    assert set(OPTIONS_OF) == {row.name for row in VERBS}
    flags = {flag for one in OPTIONS.values() for flag in one.action.option_strings}
    assert {flag for flag in flags if flag.lstrip("-") in BY_NAME} == {"--wait"}


def test_an_option_is_the_same_wherever_it_is() -> None:
    for row in VERBS:
        for group, action in parser_of(row).groups:
            one = OPTIONS[max(action.option_strings, key=len)]
            same = (one.action.dest, one.action.help, one.action.metavar, one.group)
            assert (action.dest, action.help, action.metavar, group) == same
            assert group in (ASKING, ATTACH, OTHER)


def test_options_that_may_stand_before_the_verb_are_known_with_their_values() -> None:
    for flag, takes_value in LEADING.items():
        (one,) = (one for one in OPTIONS.values() if flag in one.action.option_strings)
        assert (one.action.nargs is None) is takes_value


def test_in_a_session_there_are_fewer_options_with_the_same_defaults() -> None:
    for row in VERBS:
        outside, inside = parser_of(row), parser_of(row, in_session=True)
        assert {*options_names(inside)} < {*options_names(outside)}
        assert vars(inside.parse_args([])).keys() <= vars(outside.parse_args([])).keys()


def options_names(parser: object) -> list[str]:
    return [flag for action in options_of(parser) for flag in action.option_strings]  # type: ignore[arg-type]


def test_the_help_of_an_option_says_which_verbs_take_it_if_they_are_few(approved: Approved) -> None:
    assert full_help(OPTIONS["--exact"]).startswith("with eval, command, exec: ")
    approved(full_help(OPTIONS["--json"]))
    assert OPTIONS["--broker"].is_of_all
    assert not OPTIONS["--json"].is_of_all
