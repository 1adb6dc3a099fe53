from __future__ import annotations

import re

from dbg_broker.words.candidates import options_of, verbs_of
from dbg_broker.words.parser import parser_of_the_command
from dbg_broker.words.reference import man_page, reference_page

PARSER = parser_of_the_command()


def test_both_pages_have_each_verb_and_option() -> None:
    manual, reference = man_page(PARSER).replace("\\-", "-"), reference_page(PARSER)

    for name, verb in verbs_of(PARSER).items():
        assert f".SS {name}\n" in manual
        assert f"\n## {name}\n" in reference
        for action in options_of(verb):
            if action.dest != "help":
                assert re.search(rf"^\\fB.*{re.escape(action.option_strings[-1])}", manual, re.MULTILINE)
                assert re.search(rf"^\| `.*{re.escape(action.option_strings[-1])}", reference, re.MULTILINE)


def test_defaults_and_values_are_filled_in() -> None:
    text = reference_page(PARSER)

    assert "`--role rank\\|driver\\|watcher`" in text
    assert "(default: rank) |" in text
    assert "%(" not in text + man_page(PARSER)
    assert "--while-used" not in text
    assert "`--classic [[HOST:]PORT]`" in text
