"""The documentation's commands are run unchanged, against real ranks, and print the output on the pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import Played, pages, played
from tests.docs.play import play, scenes_of
from tests.support.processes import Processes

FIRST_PAGES = ("README.md", "docs/start.md", "docs/how-to/hang.md", "docs/how-to/nan.md")
"""The pages that a newcomer reads first; tests/full/docs plays the others."""


@pytest.mark.parametrize("scene", scenes_of(lambda page: page in FIRST_PAGES))
def test_commands_of_a_first_page_print_the_output_on_it(scene: Played, processes: Processes, tmp_path: Path) -> None:
    play(scene, processes, tmp_path)


def test_each_console_block_belongs_to_a_scene() -> None:
    for page in pages():
        count = page.read_text(encoding="utf-8").count("```console\n")
        assert count == sum(len(scene.blocks) for scene in played(page)), page
