"""The names of a file on the side of the IDE and on that of the ranks: ``pathMappings``. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbg_wire.errors import BadInput, printable

MAX_MAPPINGS = 100
"""Mappings of one session; each is tried for each file."""

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")


@dataclass(frozen=True, slots=True)
class _Mapping:
    local: str
    remote: str


class Paths:
    """The mappings of one session, the longest first. Without any, a file has the same path on both sides."""

    def __init__(self, mappings: Sequence[tuple[str, str]] = ()) -> None:
        pairs = [_Mapping(_root(local), _root(remote)) for local, remote in mappings]
        self._by_local = sorted(pairs, key=lambda one: -len(one.local))
        self._by_remote = sorted(pairs, key=lambda one: -len(one.remote))

    def to_rank(self, path: str) -> str:
        """Return the path by which ranks know a file of the IDE."""
        for one in self._by_local:
            rest = _behind(path, one.local)
            if rest is not None:
                return _joined(one.remote, rest)
        return path if _is_windows(path) else posixpath.normpath(path)

    def to_ide(self, path: str) -> str:
        """Return the path by which the IDE knows a file of the ranks."""
        for one in self._by_remote:
            rest = _behind(path, one.remote)
            if rest is not None:
                return _joined(one.local, rest)
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
