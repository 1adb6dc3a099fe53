"""The audit log of the broker's home for pages: who did what from elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dbg_client.core.patience import read_in_thread
from dbg_client.core.reach import find_audit_log
from dbg_client.core.switchboard import Switchboard
from dbg_command.audit import Entry, What, decode_entry
from dbg_dial.find import Opening
from dbg_wire.errors import DbgError
from dbg_wire.messages import Action

if TYPE_CHECKING:
    from dbg_client.web.feed import Feed

READ_SECONDS = 5.0
"""Seconds for a file system that may not answer; a page does without then."""

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
        path = find_audit_log(self._switchboard.url, os.environ, opening)
        return [] if path is None else [entry for entry in self._grown(path) if self._is_told(entry)]

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
