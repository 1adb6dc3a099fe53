"""Play the scenes of pages: type their commands for real, and compare what they print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.console import agree, steps
from tests.docs.pages import ROOT, Played, pages, played
from tests.docs.scenes import SCENES, Stage
from tests.support.processes import Processes
from tests.support.requirements import needs_mpirun, needs_torch

NEEDS = {"weights": needs_torch, "leaves-dumps": needs_torch, "mpi-missing": needs_mpirun}
"""The tools of a scene: numpy is installed together with torch, and torchrun is a part of it."""


def scenes_of(wanted: Callable[[str], bool]) -> list[Any]:
    """Return the scenes of the pages whose path from the root is wanted, as parameters of a test."""
    return [
        pytest.param(scene, id=f"{page.relative_to(ROOT)}-{scene.number}", marks=NEEDS.get(scene.scene, ()))
        for page in pages()
        if wanted(str(page.relative_to(ROOT)))
        for scene in played(page)
    ]


def play(scene: Played, processes: Processes, folder: Path) -> None:
    """Type all commands of a scene, and compare what they print with the page."""
    stage = Stage(processes, SCENES[scene.scene], folder)
    for block in scene.blocks:
        for step in steps(block.text):
            printed = stage.play(step)
            assert agree(step.output, printed), "\n".join([f"$ {step.command}", *printed])
