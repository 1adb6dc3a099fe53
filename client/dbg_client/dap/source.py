"""Source files of the ranks, for an IDE that lacks them or has others."""

from __future__ import annotations

import asyncio
import posixpath
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from dbg_client.dap.messages import Message
from dbg_client.dap.window import Window
from dbg_client.questions.inspection import source_lines
from dbg_client.views.tree import is_library
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.limits import MAX_PATH
from dbg_wire.records.ranks import RankInfo

MAX_MAPPINGS = 100
"""Mappings of one session; each is tried for each file."""

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")

MAX_FILES = 2000
"""Files of one session that are known by a number; the oldest make room."""

MAX_COMPARED = 1024 * 1024
"""Bytes of a local file that is compared with the rank's; a longer one counts as the same."""


class Paths:
    """The mappings of one session, the longest first. Without any, a file has the same path on both sides."""

    def __init__(self, mappings: Sequence[tuple[str, str]] = ()) -> None:
        pairs = [(_root(local), _root(remote)) for local, remote in mappings]
        self._by_local = sorted(pairs, key=lambda pair: -len(pair[0]))
        self._by_remote = sorted(pairs, key=lambda pair: -len(pair[1]))

    def to_rank(self, path: str) -> str:
        """Return the path by which ranks know a file of the IDE."""
        for local, remote in self._by_local:
            rest = _behind(path, local)
            if rest is not None:
                return _joined(remote, rest)
        return path if _is_windows(path) else posixpath.normpath(path)

    def to_ide(self, path: str) -> str:
        """Return the path by which the IDE knows a file of the ranks."""
        for local, remote in self._by_remote:
            rest = _behind(path, remote)
            if rest is not None:
                return _joined(local, rest)
        return path


def read_mappings(given: object) -> Paths:
    """Return what an attach request says as ``pathMappings``. Raises BadInput for what can't be used."""
    if given is None:
        return Paths()
    if not isinstance(given, list) or len(given) > MAX_MAPPINGS:
        raise BadInput(
            f"pathMappings is {printable(repr(given), 60)}", f"give a list of at most {MAX_MAPPINGS} pairs of roots"
        )
    # VS Code's Python extension adds "." for the debuggee's own folder, which differs from rank to rank.
    return Paths([pair for pair in map(_pair, given) if pair[1] != "."])


def _pair(one: object) -> tuple[str, str]:
    fields: Mapping[str, Any] = one if isinstance(one, dict) else {}
    local, remote = fields.get("localRoot"), fields.get("remoteRoot")
    if not isinstance(local, str) or not isinstance(remote, str) or not local or not remote:
        what = f"an entry of pathMappings is {printable(repr(one), 100)}"
        raise BadInput(what, 'write {"localRoot": "${workspaceFolder}", "remoteRoot": "/where/the/job/runs"}')
    return local, remote


def _root(path: str) -> str:
    if _is_windows(path):
        return path.rstrip("\\/")
    # A trailing slash means nothing, and "/" itself is the empty root.
    return posixpath.normpath(path).rstrip("/")


def _is_windows(path: str) -> bool:
    return _WINDOWS.match(path) is not None


def _behind(path: str, root: str) -> str | None:
    """Return what stands behind a root in a path, with slashes; None if the path is not below it."""
    if _is_windows(root):
        path, root = path.replace("\\", "/"), root.replace("\\", "/")
        # Drives and folders of Windows have no case.
        if path.lower() == root.lower() or path.lower().startswith(f"{root.lower()}/"):
            return path[len(root) :].lstrip("/")
        return None
    path = posixpath.normpath(path)
    if path == root:
        return ""
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else None


def _joined(root: str, rest: str) -> str:
    if _is_windows(root):
        return "\\".join([root.replace("/", "\\"), *rest.split("/")]).rstrip("\\")
    return f"{root}/{rest}".rstrip("/") or "/"


@dataclass(slots=True)
class _File:
    """A file of a rank. ``is_ours`` tells whether the IDE's own file is shown, as long as no difference is found."""

    number: int
    path: str
    rank: RankInfo
    is_ours: bool
    stamp: tuple[int, int] | None
    """The local file's time and size when it was compared; None where there is none."""
    problem: str = ""
    comparing: asyncio.Task[None] | None = None


class SourceLocator:
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
        if is_library(path):
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
        if stamp is not None and not is_library(path):
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
        lines, _ = await source_lines(self._window.asker(), self._window.now(rank), path)
        return "\n".join(lines)


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
