from __future__ import annotations

from dbg_client.words.help import help_page, session_help, session_hint
from dbg_client.words.options import OPTIONS
from dbg_client.words.verbs import BY_NAME, VERBS


def test_help_leads_with_examples_and_tells_every_exit_status() -> None:
    text = help_page()

    assert text.index("examples:") < text.index("--watch  ")
    for status in ("0", "1", "2", "3", "4", "5", "6", "7", "8", "130"):
        assert f" {status}  " in text[text.index("exit status:") :]


def test_each_verb_and_each_option_has_a_line() -> None:
    lines = [line.split() for line in help_page().splitlines()]
    begins = [line[0].rstrip(",") for line in lines if line]

    for row in VERBS:
        assert row.name in begins
        assert all(any(flag in (word.rstrip(",") for word in line) for line in lines) for flag in row.flags)
    for option in OPTIONS:
        assert option.flags[0] in begins


def test_the_examples_of_the_help_are_understood() -> None:
    words = [line.split() for line in help_page().split("verbs;")[0].splitlines() if line.startswith("  dbg-attach")]
    verbs = [line[1] for line in words if line[1] in BY_NAME]

    assert {"wait", "eval", "where", "tmux", "release"} <= set(verbs)


def test_the_page_fits_a_wide_terminal() -> None:
    assert max(map(len, help_page().splitlines())) <= 120


def test_a_session_lists_its_verbs_within_eighty_columns() -> None:
    text = session_help()

    for row in VERBS:
        assert (row.name in text) == (row.in_session is not None)
    assert max(map(len, text.splitlines())) < 80
    assert max(map(len, session_hint().splitlines())) < 80
