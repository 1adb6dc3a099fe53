"""The documentation's pages, and what stands in them: fenced blocks, and the scene that their commands belong to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_SCENE = re.compile(r"^<!-- scene: (?P<name>[\w-]+) -->$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: ``start`` and ``end`` are the places of its text in the page."""

    language: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Played:
    """The console blocks of one page that one scene plays, in their order; ``number`` counts the scenes of the page."""

    page: Path
    scene: str
    number: int
    blocks: tuple[Block, ...]


def pages() -> list[Path]:
    """Return all pages that users read."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    return [
        Block(found["language"], found["text"], found.start("text"), found.end("text"))
        for found in _FENCE.finditer(text)
    ]


def played(page: Path) -> Iterator[Played]:
    """Yield the scenes of a page with their console blocks: ``<!-- scene: NAME -->`` holds until the next one."""
    text = page.read_text(encoding="utf-8")
    scenes = [(found.start(), found["name"]) for found in _SCENE.finditer(text)]
    ends = [*(start for start, _ in scenes[1:]), len(text)][: len(scenes)]
    consoles = [block for block in blocks(text) if block.language == "console"]
    for number, ((start, name), end) in enumerate(zip(scenes, ends, strict=True)):
        yield Played(page, name, number, tuple(block for block in consoles if start < block.start < end))
