from __future__ import annotations

import re

from dbg_broker.cli.parser import parser_of_the_command, verbs_of
from dbg_wire.command_line.parser import options_of
from tests.docs.broker_page import man_page

PARSER = parser_of_the_command()


def test_the_page_has_each_verb_and_option() -> None:
    manual = man_page(PARSER).replace("\\-", "-")

    for name, verb in verbs_of(PARSER).items():
        assert f".SS {name}\n" in manual
        for action in options_of(verb):
            if action.dest != "help":
                assert re.search(rf"^\\fB.*{re.escape(action.option_strings[-1])}", manual, re.MULTILINE)


def test_defaults_and_values_are_filled_in() -> None:
    text = man_page(PARSER).replace("\\-", "-")

    assert "--role rank|driver|watcher" in text
    assert "(default: rank)" in text
    assert "%(" not in text
    assert "--while-used" not in text
    assert "--classic [[HOST:]PORT]" in text
