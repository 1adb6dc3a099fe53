"""What is served as a file: the page's own, and recordings of stops. A name is looked up in a table, and is no path."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator, Mapping
from functools import partial
from heapq import nlargest
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, NamedTuple

from dbg_client.core.patience import read_in_thread
from dbg_client.core.reach import find_home_of
from dbg_client.core.switchboard import Switchboard
from dbg_client.faces.web.messages import Recording, Recordings
from dbg_dial.find import Opening
from dbg_wire.errors import DbgError

if TYPE_CHECKING:
    from dbg_client.faces.web.feed import Feed

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


SUFFIX = ".cast"

MAX_RECORDINGS = 500
"""Recordings that are listed, the newest."""

LIST_SECONDS = 5.0
"""Seconds for a file system that may not answer; a page does without recordings then."""


GATHER_SECONDS = 2.0
"""Seconds in which what happens is gathered before the recordings are listed anew."""


class RecordingTable:
    """The recordings by their names, which have no slash: ``JOB~FILE.cast``."""

    def __init__(self, switchboard: Switchboard) -> None:
        self._switchboard = switchboard
        self._paths: dict[str, Path] = {}

    def path(self, name: str) -> Path | None:
        """Return where a recording of a name that was listed is; None for any other name."""
        return self._paths.get(name)

    async def follow(self, feed: Feed) -> None:
        """Tell a feed of the recordings, again whenever something has happened to ranks, until this is cancelled."""
        while True:
            feed.tell_if_new(Recordings(recordings=await self.listed()))
            await feed.news.wait()
            feed.news.clear()
            # The broker writes a moment later, and much may happen at once.
            await asyncio.sleep(GATHER_SECONDS)

    async def listed(self) -> tuple[Recording, ...]:
        """List the recordings anew, the newest first; none where the broker keeps none or they can't be read."""
        try:
            home = await read_in_thread(partial(find_home_of, self._switchboard.url, os.environ), LIST_SECONDS)
            directory = home.records if home is not None else ""
            found = await read_in_thread(lambda opening: _newest(directory, opening), LIST_SECONDS)
        except (DbgError, OSError, asyncio.TimeoutError):
            return ()
        self._paths = {recording.name: path for recording, path in found}
        return tuple(recording for recording, _ in found)


def _newest(directory: str, opening: Opening) -> list[tuple[Recording, Path]]:
    if not directory:
        return []
    opening(directory)
    return nlargest(MAX_RECORDINGS, _all(Path(directory)), key=lambda one: one[0].at)


def _all(directory: Path) -> Iterator[tuple[Recording, Path]]:
    for folder in directory.iterdir():
        # A link would lead out of the directory.
        for path in folder.iterdir() if folder.is_dir() and not folder.is_symlink() else ():
            status = path.lstat()
            if path.suffix == SUFFIX and S_ISREG(status.st_mode) and status.st_uid == os.getuid():
                name = f"{folder.name}~{path.name}"
                yield (
                    Recording(name=name, job=folder.name, title=path.stem, at=status.st_mtime, size=status.st_size),
                    path,
                )
