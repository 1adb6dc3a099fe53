"""The documentation's commands are run unchanged against real ranks, and print what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import Played
from tests.docs.play import play, scenes_of
from tests.e2e.docs.test_console import FIRST_PAGES
from tests.support.processes import Processes

PLAYED_ELSEWHERE = (*FIRST_PAGES, "docs/hangs.md", "docs/clusters/ray.md")
"""Pages that other tests play: tests/full/torch/test_hangs.py and tests/full/frameworks/test_ray.py."""


@pytest.mark.parametrize("scene", scenes_of(lambda page: page not in PLAYED_ELSEWHERE))
def test_commands_of_a_page_print_the_documented_output(scene: Played, processes: Processes, tmp_path: Path) -> None:
    play(scene, processes, tmp_path)
