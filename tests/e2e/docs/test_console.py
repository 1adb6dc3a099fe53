"""The documentation's commands are run as they stand, against real ranks, and print what the pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console import Step, agree, steps
from tests.docs.pages import Played, pages, played
from tests.docs.play import play, scenes_of
from tests.support.processes import Processes

FIRST_PAGES = ("README.md", "docs/start.md", "docs/how-to/hang.md", "docs/how-to/nan.md")
"""The pages that a newcomer reads first; tests/full/docs plays the others."""


@pytest.mark.parametrize("scene", scenes_of(lambda page: page in FIRST_PAGES))
def test_commands_of_a_first_page_print_what_the_page_says(scene: Played, processes: Processes, tmp_path: Path) -> None:
    play(scene, processes, tmp_path)


def test_each_console_block_belongs_to_a_scene() -> None:
    for page in pages():
        told = page.read_text(encoding="utf-8").count("```console\n")
        assert told == sum(len(scene.blocks) for scene in played(page)), page


def test_steps_are_commands_with_what_they_print() -> None:
    found = list(steps("$ one \\\n    more\nout\n\n$ two\n"))
    assert found == [Step("one \\\n    more", ("out",)), Step("two", ())]


def test_lines_typed_at_a_debugger_are_found() -> None:
    assert Step("dbg-attach 2", ("> here", "(Pdb) p x", "1", "(Pdb) u")).typed == ("p x", "u")


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        (["RANK  SINCE", "gpu013:0  3 s"], ["RANK      SINCE", "gpu013:0  12 s  ", ""]),
        (["a … z"], ["a b c z"]),
        (["first", "…", "last"], ["first", "2", "3", "last"]),
        (["first", "…", "last"], ["first", "last"]),
        (["… for 3.2 min"], ["x for 1 min"]),
    ],
)
def test_times_blanks_and_dots_stand_for_others(expected: list[str], printed: list[str]) -> None:
    assert agree(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        (["loss 3"], ["loss 4"]),
        (["one"], ["one", "two"]),
        (["one", "two"], ["one"]),
        (["4 [0-3]"], ["3 [0-2]"]),
        (["for 3 s"], ["for 3 min"]),
    ],
)
def test_other_differences_count(expected: list[str], printed: list[str]) -> None:
    assert not agree(expected, printed)
