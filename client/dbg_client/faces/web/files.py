"""The files of the page: a table that is made once; a request is looked up there, and no path is made of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

STATIC = Path(__file__).with_name("static")

PAGE = "index.html"
"""The page itself, which is served at ``/`` alone, with a nonce."""

TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""What is served, by the end of its name."""


class StaticFile(NamedTuple):
    """A file as it is served; ``tag`` tells its contents from those of another release."""

    data: bytes
    type: str
    tag: str


def static_files(folder: Path = STATIC) -> Mapping[str, StaticFile]:
    """Return what is below ``/static/``, by its path there. Blocks."""
    return {
        path.relative_to(folder).as_posix(): _read(path)
        for path in sorted(folder.rglob("*"))
        if path.suffix in TYPES and path.is_file()
    }


def page_text(folder: Path = STATIC) -> str:
    """Return the page. Blocks."""
    return (folder / PAGE).read_text(encoding="utf-8")


def _read(path: Path) -> StaticFile:
    data = path.read_bytes()
    return StaticFile(data, TYPES[path.suffix], hashlib.sha256(data).hexdigest()[:32])
