from __future__ import annotations

from dataclasses import fields

from dbg_client.words.arguments import Arguments
from dbg_client.words.commands import parse_command
from dbg_client.words.settings import Verb
from dbg_client.words.verbs import ATTACHING, BY_FLAG, BY_NAME, VERBS
from dbg_wire.targets.grammar import Word

FIELDS = {field.name for field in fields(Arguments)}


def test_each_word_and_each_flag_stands_for_one_verb() -> None:
    words = [word for row in VERBS for word in (row.name, row.short) if word is not None]

    assert len(words) == len(set(words)) == len(BY_NAME)
    assert len(BY_FLAG) == sum(len(row.flags) for row in VERBS)


def test_no_verb_is_a_word_for_ranks() -> None:
    assert not set(BY_NAME) & {word.value for word in Word}


def test_each_verb_fills_a_field_and_is_a_member_of_verb() -> None:
    assert {row.field for row in VERBS if row.field is not None} <= FIELDS
    assert {row.name.upper() for row in VERBS} - {"WAIT"} == {verb.name for verb in Verb} - {"REPLAY"}


def test_those_that_attach_are_verbs() -> None:
    assert {Verb[name.upper()] for name in ATTACHING if name != "wait"} == {verb for verb in Verb if verb.attaches}


def test_each_example_of_a_verb_that_is_spoken_in_a_session_is_understood_there() -> None:
    for row in VERBS:
        if row.in_session is not None and row.name != "help":
            settings = parse_command(row.example, {})
            assert settings is not None
            assert settings.verb is Verb[row.name.upper()]
            assert row.help_in_session
