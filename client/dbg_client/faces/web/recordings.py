"""The recordings of stops that the broker of this home keeps; a name counts only if it was listed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from heapq import nlargest
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from dbg_client.core.patience import read_in_thread
from dbg_client.core.reach import find_recordings
from dbg_client.core.switchboard import Switchboard
from dbg_client.faces.web.messages import Recording, Recordings
from dbg_dial.find import Opening
from dbg_wire.errors import DbgError

if TYPE_CHECKING:
    from dbg_client.faces.web.feed import Feed

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
        find = partial(find_recordings, self._switchboard.url, os.environ)
        try:
            directory = await read_in_thread(find, LIST_SECONDS)
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
