from __future__ import annotations

import re

from dbg_client.words.config import PREFERENCES
from dbg_client.words.options import OPTIONS
from dbg_client.words.reference import man_page, reference_page
from dbg_client.words.verbs import VERBS


def test_the_reference_has_each_verb_option_and_setting() -> None:
    text = reference_page()

    for row in VERBS:
        assert f"\n### {row.name}\n" in text
        assert f"    dbg-attach {row.example}\n" in text
    for option in OPTIONS:
        assert re.search(rf"^\| `.*{re.escape(option.name)}\b", text, re.MULTILINE)
    for key in PREFERENCES:
        assert f"| `{key}` |" in text


def test_each_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    for table in re.findall(r"(?:^\|.*\n)+", reference_page(), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_the_manual_page_has_each_verb_and_option() -> None:
    text = man_page().replace("\\-", "-")

    for row in VERBS:
        assert re.search(rf"^\\fB{row.name}\b", text, re.MULTILINE)
    for option in OPTIONS:
        assert re.search(rf"^\\fB.*{re.escape(option.name)}", text, re.MULTILINE)
