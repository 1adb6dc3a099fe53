from __future__ import annotations

from dbg_client.words.session_line import parse_command
from dbg_client.words.verbs import BY_NAME, VERBS
from dbg_wire.targets.grammar import Word


def test_each_word_stands_for_one_verb() -> None:
    words = [word for row in VERBS for word in (row.name, row.short) if word is not None]

    assert len(words) == len(set(words)) == len(BY_NAME)


def test_no_verb_is_a_word_for_ranks() -> None:
    assert not set(BY_NAME) & {word.value for word in Word}


def test_each_example_of_a_verb_that_is_spoken_in_a_session_is_understood_there() -> None:
    for row in VERBS:
        if row.in_session is not None and row.name != "help":
            settings = parse_command(row.example, {})
            assert settings is not None
            assert settings.name == row.name
            assert row.help_in_session
