from __future__ import annotations

import pytest

from dbg_client.command_line.completion import complete_words
from dbg_client.command_line.reading import parser_of
from dbg_client.verbs.table import VERBS
from dbg_command.command_line import FILES


def offered(line: str) -> set[str]:
    """Return what is offered for the last word behind ``dbg-attach``."""
    return {each.partition("\t")[0] for each in complete_words(line.split(" "))[0]}


def test_the_first_word_is_a_verb_or_a_target() -> None:
    lines, has_targets = complete_words([""])

    assert {"all", "stopped", "held", "crashed", "running", *(row.name for row in VERBS)} == offered("")
    assert has_targets
    assert all(line.partition("\t")[2] for line in lines)
    assert complete_words([]) == (lines, has_targets)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("wh", {"where", "why"}),
        ("where h", {"held"}),
        ("eval s", {"stopped"}),
        ("completion ", {"bash", "zsh", "fish"}),
        ("all --wa", {"--watch"}),
        ("5 --engine ", {"pudb", "pdb"}),
        ("eval all loss --li", {"--live"}),
        ("where --st", set()),
        ("eval all lo", set()),
        ("help wh", {"where", "why"}),
        ("why ./du", {FILES}),
        ("why dumps/rank_0 ", {FILES}),
        ("all wh", set()),
        ("zebra", set()),
    ],
)
def test_word_is_completed(line: str, words: set[str]) -> None:
    assert offered(line) == words


@pytest.mark.parametrize(
    ("line", "targets"),
    [
        ("5", True),
        ("where ", True),
        ("kill gpu", True),
        ("eval ", True),
        ("wait 5", True),
        ("eval all ", False),
        ("where -", False),
        ("all ", False),
        ("--timeout ", False),
    ],
)
def test_live_targets_are_completed_in_place_of_a_target(line: str, targets: bool) -> None:
    assert complete_words(line.split(" "))[1] is targets


@pytest.mark.parametrize("words", [["5", "-x", "a"], ["attach", "-x", ""]])
def test_shell_completes_the_value_of_a_file_option(words: list[str]) -> None:
    assert complete_words(words) == ([":files"], False)


def test_each_option_is_offered_by_its_beginning() -> None:
    for row in VERBS:
        for _, option in parser_of(row.load()).groups:
            for flag in option.option_strings:
                assert flag in offered(f"{row.name} {flag}")
