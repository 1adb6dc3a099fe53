"""What the home of the broker has for pages: recordings of stops, and in its audit log who did what from elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from functools import partial
from heapq import nlargest
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from dbg_client.core.patience import read_in_thread
from dbg_client.core.reach import find_home_of
from dbg_client.core.switchboard import Switchboard
from dbg_client.faces.web.messages import Recording, Recordings
from dbg_dial.find import Opening
from dbg_wire.errors import DbgError
from dbg_wire.messages import Action
from dbg_wire.records.audit import Entry, What, decode_entry

if TYPE_CHECKING:
    from dbg_client.faces.web.feed import Feed

READ_SECONDS = 5.0
"""Seconds for a file system that may not answer; a page does without then."""

SUFFIX = ".cast"

MAX_RECORDINGS = 500
"""Recordings that are listed, the newest."""

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
            found = await read_in_thread(partial(_newest, self._switchboard.url), READ_SECONDS)
        except (DbgError, OSError):
            return ()
        self._paths = {recording.name: path for recording, path in found}
        return tuple(recording for recording, _ in found)


def _newest(url: str, opening: Opening) -> list[tuple[Recording, Path]]:
    home = find_home_of(url, os.environ, opening)
    if home is None or not home.records:
        return []
    opening(home.records)
    return nlargest(MAX_RECORDINGS, _all(Path(home.records)), key=lambda one: one[0].at)


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


LOOK_SECONDS = 2.0
"""Seconds between two looks at the log's size; the broker writes a moment after something was done."""

MAX_READ = 256 * 1024
"""Bytes that are read at once: some thousand entries, and at the beginning the last ones of before."""

CHANGES = frozenset(
    action.value
    for action in (
        *(Action.EVAL, Action.COMMAND, Action.EXEC, Action.INTERRUPT, Action.CONTINUE, Action.RELEASE, Action.KILL),
        Action.BREAKPOINTS,
    )
)
"""Questions that are told: those by which something may change."""


class AuditTail:
    """The entries that are new at each look; what is done from this ``program`` is left out, as it is known here."""

    def __init__(self, switchboard: Switchboard, program: str) -> None:
        self._switchboard, self._program = switchboard, program
        self._file: tuple[int, int] | None = None
        self._read_to = 0

    async def follow(self, feed: Feed) -> None:
        """Put what others do on a feed's time line, until this is cancelled; nothing where the log can't be read."""
        while True:
            # A file system that fails now may not fail at the next look.
            with contextlib.suppress(DbgError, OSError):
                for entry in await read_in_thread(self._new_entries, READ_SECONDS):
                    feed.did(entry)
            await asyncio.sleep(LOOK_SECONDS)

    def _new_entries(self, opening: Opening) -> list[Entry]:
        home = find_home_of(self._switchboard.url, os.environ, opening)
        return [] if home is None else [entry for entry in self._grown(home.audit) if self._is_told(entry)]

    def _is_told(self, entry: Entry) -> bool:
        return entry.what is What.QUESTION and entry.action in CHANGES and entry.terminal != self._program

    def _grown(self, path: str) -> Iterator[Entry]:
        """Yield the entries that were appended since the last look, the last ones of many."""
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != self._file:
                # A new file is begun when one has grown large.
                self._file, self._read_to = (status.st_dev, status.st_ino), 0
            begin = max(self._read_to, status.st_size - MAX_READ)
            file.seek(begin)
            data = file.read(MAX_READ)
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to = begin + len(whole)
        # The first one may have begun before what is read, and is no entry then.
        yield from filter(None, map(decode_entry, whole.splitlines()))
