"""Source files of the ranks, for an IDE that lacks them or has others."""

from __future__ import annotations

import asyncio
import stat
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from dbg_client.dap.messages import Message
from dbg_client.dap.paths import Paths
from dbg_client.dap.window import Window
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.limits import MAX_PATH
from dbg_wire.records.inspection import Inspection, Sight
from dbg_wire.records.ranks import RankInfo

MAX_FILES = 2000
"""Files of one session that are known by a number; the oldest make room."""

MAX_COMPARED = 1024 * 1024
"""Bytes of a local file that is compared with the rank's; a longer one counts as the same."""

MAX_PARTS = 400
"""Answers that one file is put together from, at least 12,000 characters each."""

_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3")


@dataclass(slots=True)
class _File:
    """A file of a rank. ``is_ours`` tells whether the IDE's own file is shown: None as long as that is not known."""

    number: int
    path: str
    rank: RankInfo
    is_ours: bool
    stamp: tuple[int, int] | None
    """The local file's time and size when it was compared; None where there is none."""
    problem: str = ""
    comparing: asyncio.Task[None] | None = None


class Sources:
    """The files in the stacks of one window; belongs to one event loop."""

    def __init__(self, window: Window, paths: Paths, *, knows_invalidated: bool = False) -> None:
        self._window = window
        self._paths = paths
        self._knows_invalidated = knows_invalidated
        self._numbers = count(1)
        self._files: dict[str, _File] = {}
        self._comparing: set[asyncio.Task[None]] = set()

    def source(self, rank: RankInfo, path: str) -> Message:
        """Return a file of a rank as the protocol's Source: the IDE's own one where it has it, else the rank's."""
        file = self._files.get(path) or self._new(rank, path)
        file.rank = rank
        told: Message = {
            "name": printable(path.rpartition("/")[2] or path),
            "path": printable(self._local(path), MAX_PATH),
        }
        if _is_library(path):
            told["presentationHint"] = "deemphasize"
        if file.is_ours:
            return told
        return {**told, "sourceReference": file.number, "origin": f"as {printable(rank.address)} runs it"}

    def problem(self, path: str) -> str:
        """Return why lines of the IDE's file are not those that a rank runs; empty if they are, or are not compared."""
        file = self._files.get(path)
        return file.problem if file is not None else ""

    async def compared(self, rank: RankInfo, path: str, seconds: float) -> None:
        """Wait until the IDE's file is compared with the rank's, anew if it was edited since, or for ``seconds``."""
        known = self._files.get(path)
        if known is not None and known.stamp != _stamp(Path(self._local(path))):
            del self._files[path]
        file = self._files.get(path) or self._new(rank, path)
        if file.comparing is not None:
            await asyncio.wait([file.comparing], timeout=seconds)

    async def content(self, arguments: Message) -> Message:
        """Return the body of the answer to ``source``. Raises BadInput for an unknown file, and what a rank refuses."""
        source = arguments.get("source")
        number = arguments.get("sourceReference") or (source.get("sourceReference") if isinstance(source, dict) else 0)
        file = next((one for one in self._files.values() if one.number == number), None)
        if file is None and isinstance(source, dict) and isinstance(source.get("path"), str):
            file = self._files.get(self._paths.to_rank(source["path"]))
        if file is None:
            raise BadInput(f"no file has the number {printable(repr(number), 20)}", "open it from the stack of a rank")
        return {"content": await self._text(file.rank, file.path), "mimeType": "text/x-python"}

    async def close(self) -> None:
        """Give up the comparisons that are open."""
        for task in self._comparing:
            task.cancel()
        await asyncio.gather(*self._comparing, return_exceptions=True)

    def _local(self, path: str) -> str:
        return self._paths.to_ide(path)

    def _new(self, rank: RankInfo, path: str) -> _File:
        local = Path(self._local(path))
        stamp = _stamp(local) if path.startswith("/") and local.is_absolute() else None
        file = _File(next(self._numbers), path, rank, stamp is not None, stamp)
        if len(self._files) >= MAX_FILES:
            del self._files[next(iter(self._files))]
        self._files[path] = file
        if stamp is not None and not _is_library(path):
            task = file.comparing = asyncio.create_task(self._compare(file, local))
            self._comparing.add(task)
            task.add_done_callback(self._comparing.discard)
        return file

    async def _compare(self, file: _File, local: Path) -> None:
        """Show the rank's file from now on if the local one has another text."""
        try:
            ours = await asyncio.to_thread(_read, local)
            if ours is None or ours == await self._text(file.rank, file.path):
                return
        except DbgError:
            return
        file.is_ours = False
        differs = f"{printable(str(local))} is not what {printable(file.rank.address)} runs"
        file.problem = f"{differs}; the line is one of the rank's text"
        self._window.tell(f"{differs}; the rank's text is shown.")
        if self._knows_invalidated:
            self._window.event("invalidated", {"areas": ["stacks"]})

    async def _text(self, rank: RankInfo, path: str) -> str:
        parts: list[str] = []
        begin = 0
        for _ in range(MAX_PARTS):
            question = Inspection(sight=Sight.SOURCE, text=path, begin=begin)
            found = (await self._window.inspect(self._window.now(rank), question)).sources
            for one in found:
                parts.append(one.lines)
                begin = one.begin + one.lines.count("\n") + 1
            if not found or begin >= found[-1].total:
                break
        return "\n".join(parts)


def _is_library(path: str) -> bool:
    return any(part in path for part in _LIBRARIES) or path.startswith("<frozen")


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return the time and size of a file; None if it is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_size) if stat.S_ISREG(found.st_mode) else None


def _read(path: Path) -> str | None:
    """Return a file's text without the last line feed; None if it is too long, or can't be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_COMPARED + 1)
        if len(data) > MAX_COMPARED:
            return None
        return data.decode("utf-8").replace("\r\n", "\n").removesuffix("\n")
    except (OSError, ValueError):
        return None
