"""The documentation's commands are run as they stand, against real ranks, and print what the pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console import Step, agree, steps
from tests.docs.pages import ROOT, Played, pages, played
from tests.docs.scenes import SCENES, Stage
from tests.support.processes import Processes
from tests.support.requirements import needs_torch

HANGS = ROOT / "docs/hangs.md"
"""Its jobs take long to start: tests/full/torch/test_hangs.py plays the page beside its other tests of them."""

ALL = [scene for page in pages() if page != HANGS for scene in played(page)]

NEEDS = {"weights": needs_torch}
"""What scenes need: numpy is installed together with torch."""


def _name(scene: Played) -> str:
    return f"{scene.page.relative_to(ROOT)}-{scene.number}"


@pytest.mark.parametrize(
    "scene", [pytest.param(scene, id=_name(scene), marks=NEEDS.get(scene.scene, ())) for scene in ALL]
)
def test_commands_of_a_page_print_what_the_page_says(scene: Played, processes: Processes, tmp_path: Path) -> None:
    stage = Stage(processes, SCENES[scene.scene], tmp_path)
    for block in scene.blocks:
        for step in steps(block.text):
            printed = stage.play(step)
            assert agree(step.output, printed), "\n".join([f"$ {step.command}", *printed])


def test_each_console_block_belongs_to_a_scene() -> None:
    assert len(ALL) > 5
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
