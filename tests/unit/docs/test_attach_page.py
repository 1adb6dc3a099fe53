from __future__ import annotations

import re

from dbg_client.words.parsers import all_options
from dbg_client.words.verbs import VERBS
from tests.docs.attach_page import man_page


def test_the_manual_page_has_each_verb_and_option() -> None:
    text = man_page().replace("\\-", "-")

    for row in VERBS:
        assert re.search(rf"^\\fB{row.name}\b", text, re.MULTILINE)
    for option in all_options():
        assert re.search(rf"^\\fB.*{re.escape(option.action.option_strings[-1])}", text, re.MULTILINE)
