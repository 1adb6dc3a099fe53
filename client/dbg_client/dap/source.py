"""Ranks' source files, for an IDE that does not have them or has them at other paths."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from dbg_client.api.inspection import ask_one
from dbg_client.core.asking import Asker
from dbg_client.dap.messages import Message
from dbg_client.dap.window import Window
from dbg_client.views.tree import is_library
from dbg_wire.errors import BadInput, printable
from dbg_wire.limits import MAX_PATH
from dbg_wire.messages import Action
from dbg_wire.records.inspection import Inspection, InspectionKind, inspected_in
from dbg_wire.records.ranks import RankInfo

MAX_ANSWERS = 256
"""Maximum questions for the text of one file.

Their answers contain up to four million characters, and nobody reads a longer file.
"""

MAX_MAPPINGS = 100
"""Maximum path mappings of one session; each is tried for each file."""

MAX_FILES = 2000
"""Maximum number of files that one session remembers; the oldest are forgotten first."""


class Paths:
    """The mappings of one session, longest first. Without a mapping, a file has the same path on both sides."""

    def __init__(self, mappings: Sequence[tuple[str, str]] = ()) -> None:
        # A trailing slash has no meaning, and "/" itself becomes the empty root.
        pairs = [tuple(posixpath.normpath(root).rstrip("/") for root in pair) for pair in mappings]
        self._by_local = sorted(((local, remote) for local, remote in pairs), key=_by_length)
        self._by_remote = sorted(((remote, local) for local, remote in pairs), key=_by_length)

    def to_rank(self, path: str) -> str:
        """Return the ranks' path of a file in the IDE."""
        return _mapped(posixpath.normpath(path), self._by_local)

    def to_ide(self, path: str) -> str:
        """Return the IDE's path of a file in the ranks."""
        return _mapped(path, self._by_remote)


def _by_length(pair: tuple[str, str]) -> int:
    return -len(pair[0])


def _mapped(path: str, pairs: Sequence[tuple[str, str]]) -> str:
    for root, other in pairs:
        if path == root or path.startswith(f"{root}/"):
            return other + path[len(root) :] or "/"
    return path


def read_mappings(given: object) -> Paths:
    """Read ``pathMappings`` of an attach request. Raises BadInput if they are invalid."""
    if given is None:
        return Paths()
    if not isinstance(given, list) or len(given) > MAX_MAPPINGS:
        raise BadInput(
            f"pathMappings is {printable(repr(given), 60)}", f"give a list of at most {MAX_MAPPINGS} pairs of roots"
        )
    # VS Code's Python extension adds "." for the program's own folder. Ignore it, because ranks have different folders.
    return Paths([pair for pair in map(_pair, given) if pair[1] != "."])


def _pair(one: object) -> tuple[str, str]:
    fields: Mapping[str, Any] = one if isinstance(one, dict) else {}
    local, remote = fields.get("localRoot"), fields.get("remoteRoot")
    if not isinstance(local, str) or not isinstance(remote, str) or not local or not remote:
        what = f"an entry of pathMappings is {printable(repr(one), 100)}"
        raise BadInput(what, 'write {"localRoot": "${workspaceFolder}", "remoteRoot": "/where/the/job/runs"}')
    return local, remote


class SourceLocator:
    """Source files in the stacks of one window: the IDE's own file if it exists, else the text from a rank."""

    def __init__(self, window: Window, paths: Paths) -> None:
        self._window = window
        self._paths = paths
        self._numbers = count(1)
        self._files: dict[int, tuple[RankInfo, str]] = {}
        self._known: dict[str, Message] = {}

    def source(self, rank: RankInfo, path: str) -> Message:
        """Return a rank's file as a DAP Source: the path of the IDE's own file if it exists, else a reference."""
        document = self._known.get(path)
        if document is None:
            document = self._known[path] = self._source(rank, path)
        if "sourceReference" in document:
            self._files[document["sourceReference"]] = rank, path
        return document

    async def content(self, arguments: Message) -> Message:
        """Answer ``source``. Raises BadInput for an unknown file, and RankError if the rank refuses."""
        source = arguments.get("source")
        number = arguments.get("sourceReference") or (source.get("sourceReference") if isinstance(source, dict) else 0)
        file = self._files.get(number) if isinstance(number, int) else None
        if file is None:
            raise BadInput(f"no file has the number {printable(repr(number), 20)}", "open it from the stack of a rank")
        lines = await _lines(self._window.asker(), self._window.now(file[0]), file[1])
        return {"content": "\n".join(lines), "mimeType": "text/x-python"}

    def _source(self, rank: RankInfo, path: str) -> Message:
        local = self._paths.to_ide(path)
        document: Message = {"name": printable(path.rpartition("/")[2] or path), "path": printable(local, MAX_PATH)}
        if is_library(path):
            document["presentationHint"] = "deemphasize"
        if path.startswith("/") and Path(local).is_absolute() and _is_file(local):
            return document
        if len(self._known) >= MAX_FILES:
            oldest = self._known.pop(next(iter(self._known)))
            self._files.pop(oldest.get("sourceReference", 0), None)
        return {**document, "sourceReference": next(self._numbers), "origin": f"as {printable(rank.address)} runs it"}


async def _lines(asker: Asker, rank: RankInfo, path: str) -> list[str]:
    """Return the lines of a file as a rank has loaded it. Raises RankError if the rank refuses."""
    lines: list[str] = []
    for _ in range(MAX_ANSWERS):
        question = Inspection(sight=InspectionKind.SOURCE, text=path, start=len(lines))
        document = inspected_in((await ask_one(asker, Action.INSPECT, rank, inquiry=question)).rows).sources
        new = [line for part in document for line in part.lines.split("\n")]
        lines += new
        if not new or len(lines) >= document[0].total:
            break
    return lines


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False
