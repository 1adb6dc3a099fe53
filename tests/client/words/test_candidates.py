from __future__ import annotations

import pytest

from dbg_client.words.candidates import Completion, complete_words
from dbg_client.words.options import OPTIONS
from dbg_client.words.verbs import VERBS


def offered(line: str) -> set[str]:
    """Return what is offered for the last word behind ``dbg-attach``."""
    return {word for word, _ in complete_words(line.split(" ")).words}


def test_the_first_word_is_a_verb_or_a_target() -> None:
    completion = complete_words([""])

    assert {"all", "stopped", "held", "crashed", "running", *(row.name for row in VERBS)} == {
        word for word, _ in completion.words
    }
    assert completion.targets
    assert all(meaning for _, meaning in completion.words)
    assert complete_words([]) == completion


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("wh", {"where", "why"}),
        ("s", {"stopped", "stops", "screen"}),
        ("where h", {"held"}),
        ("eval s", {"stopped"}),
        ("completion ", {"bash", "zsh", "fish"}),
        ("completion f", {"fish"}),
        ("all --wh", {"--where"}),
        ("all --cont", {"--continue"}),
        ("5 --engine ", {"pudb", "pdb"}),
        ("--engine pd", {"pdb"}),
        ("eval all loss --st", {"--stats"}),
        ("where --st", set()),
        ("where --al", {"--all"}),
        ("config --j", {"--json"}),
        ("eval all lo", set()),
        ("all -e lo", set()),
        ("--timeout 5 li", {"list"}),
        ("zebra", set()),
    ],
)
def test_what_a_word_may_become(line: str, words: set[str]) -> None:
    assert offered(line) == words


def test_behind_a_target_the_actions_are_offered() -> None:
    assert offered("all ") == {row.flags[-1] for row in VERBS if row.flags}


@pytest.mark.parametrize(
    ("line", "targets"),
    [
        ("5", True),
        ("where ", True),
        ("kill gpu", True),
        ("eval ", True),
        ("--wait 5", True),
        ("-e loss ", True),
        ("eval all ", False),
        ("where all ", False),
        ("config ", False),
        ("where -", False),
        ("all ", False),
        ("--timeout ", False),
    ],
)
def test_where_a_target_stands_live_ones_are_asked_for(line: str, targets: bool) -> None:
    assert complete_words(line.split(" ")).targets is targets


@pytest.mark.parametrize("option", ["-x", "--save", "--against"])
def test_the_value_of_an_option_that_takes_a_file_is_the_shells(option: str) -> None:
    assert complete_words(["5", option, "a"]) == Completion(files=True)


def test_each_option_is_offered_by_its_beginning() -> None:
    for option in OPTIONS:
        for flag in option.flags:
            assert flag in offered(flag)
