from __future__ import annotations

import re

import pytest

from dbg_client.words.help import SHORT, help_on, session_help, session_hint, whole_page
from dbg_client.words.parsers import all_options
from dbg_client.words.verbs import BY_NAME, VERBS
from dbg_wire.errors import BadInput
from tests.conftest import Approved


def test_help_leads_with_examples_and_tells_every_exit_status() -> None:
    text = whole_page()

    assert text.index("examples:") < text.index("--watch  ")
    for status in ("0", "1", "2", "3", "4", "5", "6", "7", "8", "130"):
        assert f" {status}  " in text[text.index("exit status:") :]


def test_each_verb_and_each_option_has_a_line() -> None:
    lines = [line.split() for line in whole_page().splitlines()]
    begins = [line[0].rstrip(",") for line in lines if line]

    for row in VERBS:
        assert row.name in begins
    for option in all_options():
        assert option.action.option_strings[0] in begins


def test_the_examples_of_the_help_are_understood() -> None:
    words = [line.split() for line in whole_page().split("verbs,")[0].splitlines() if line.startswith("  dbg-attach")]
    verbs = [line[1] for line in words if line[1] in BY_NAME]

    assert {"wait", "eval", "where", "tmux", "release"} <= set(verbs)


def test_the_page_fits_a_wide_terminal() -> None:
    assert max(map(len, whole_page().splitlines())) <= 120


def test_a_session_lists_its_verbs_within_eighty_columns() -> None:
    text = session_help()

    for row in VERBS:
        assert (row.name in text) == (row.in_session is not None)
    assert max(map(len, text.splitlines())) < 80
    assert max(map(len, session_hint().splitlines())) < 80


def test_the_short_page_fits_one_screen_and_names_what_there_is() -> None:
    lines = SHORT.splitlines()
    verbs = re.findall(r"^  ([a-z]+) ", SHORT, re.MULTILINE)
    options = re.findall(r"(?<!\S)--?[a-z]+", SHORT.split("adopt --mine")[1])

    # One row is the shell's, which prompts below.
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert len(verbs) == 12
    assert set(verbs) <= set(BY_NAME)
    assert len(options) == 10
    assert set(options) <= {flag for option in all_options() for flag in option.action.option_strings} | {"--version"}


def test_help_of_a_verb_has_its_options_and_an_example() -> None:
    text = help_on("eval")

    assert "dbg-attach eval 0-7 'loss, lr'" in text
    assert "--live" in text
    assert "--watch" not in text
    assert help_on("e") == text
    assert help_on("") == SHORT
    assert help_on("all") == whole_page()
    for row in VERBS:
        assert row.example in help_on(row.name)


def test_help_of_what_is_no_verb_says_so(approved: Approved) -> None:
    with pytest.raises(BadInput) as caught:
        help_on("wher")
    approved(str(caught.value))
    with pytest.raises(BadInput) as caught:
        help_on("zebra")
    approved(str(caught.value), "2")
