"""Write what the documentation's commands print now into its pages: ``python -m tests.docs.refresh [PAGE…]``.

Blocks that a run agrees with stay as they are. Look at the difference before you commit it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

from tests.docs.console import ANYTHING, agree, shown, steps
from tests.docs.pages import ROOT, Played, pages, played
from tests.docs.scenes import SCENES, Stage
from tests.support.broker import Wrap
from tests.support.environment import clean_environment, is_foreign
from tests.support.memory_limit import limited_memory
from tests.support.processes import Processes


def renewed(expected: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Return what is printed now, with ``…`` wherever the page has it in a line, or for lines, that still agree."""
    if agree(expected, printed):
        return list(expected)
    general = [line for line in expected if ANYTHING in line and line != ANYTHING]
    now = [next((line for line in general if agree([line], [new])), new) for new in printed]
    kept = []
    for kind, start, end, now_start, now_end in SequenceMatcher(None, expected, now, autojunk=False).get_opcodes():
        stays = kind != "equal" and list(expected[start:end]) == [ANYTHING]
        kept += [ANYTHING] if stays else now[now_start:now_end]
    return kept


def replaced(scene: Played, folder: Path) -> list[tuple[int, int, str]]:
    """Play a scene; return the places of the page that are to change, with their new texts."""
    with limited_memory(SCENES[scene.scene].memory) as wrap:
        if wrap is None:
            sys.stderr.write(f"{scene.scene}: no memory limit can be set here\n")
            return []
        return renewed_blocks(scene, folder, wrap)


def renewed_blocks(scene: Played, folder: Path, wrap: Wrap) -> list[tuple[int, int, str]]:
    """Play a scene whose launcher is wrapped in this; return what is to change."""
    processes = Processes(folder / "logs")
    try:
        stage = Stage(processes, SCENES[scene.scene], folder, wrap)
        changes = []
        for block in scene.blocks:
            done = [(step, stage.play(step)) for step in steps(block.text)]
            if not all(agree(step.output, printed) for step, printed in done):
                kept = [(step, renewed(step.output, printed)) for step, printed in done]
                changes.append((block.start, block.end, shown(kept)))
        return changes
    finally:
        processes.end_all()


def refresh(page: Path) -> None:
    """Play all scenes of a page and write the page if something differs."""
    changes: list[tuple[int, int, str]] = []
    for scene in (one for one in played(page) if one.scene in SCENES):
        with tempfile.TemporaryDirectory() as folder:
            changes += replaced(scene, Path(folder))
    text = page.read_text(encoding="utf-8")
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    page.write_text(text, encoding="utf-8")
    sys.stderr.write(f"{page.relative_to(ROOT)}: {len(changes)} blocks have changed\n")


def main() -> None:
    """Refresh the pages that are named, or all."""
    with tempfile.TemporaryDirectory() as home:
        for name in [name for name in os.environ if is_foreign(name)]:
            del os.environ[name]
        os.environ.update(clean_environment(os.environ, Path(home)))
        for page in [Path(name).resolve() for name in sys.argv[1:]] or pages():
            refresh(page)


if __name__ == "__main__":
    main()
