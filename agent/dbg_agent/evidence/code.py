"""Digests of the files, packages and environment that this process runs with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from dbg_agent.evidence.environment import environment, variables_told
from dbg_agent.evidence.files import CodeFiles
from dbg_wire.errors import printable
from dbg_wire.records.evidence import MAX_CODE_ROWS, CodeKind, CodePart, CodeSeen
from dbg_wire.records.record import fitted

_files = CodeFiles()
"""What was read already: files that have not changed since are not read again."""


def code_seen() -> CodeSeen:
    """Return one digest for the files, one for the packages, and one for the environment; for the link's thread.

    The digests of files and packages are empty while they are being read: a file system may hang.
    """
    read = _files.read()
    files, packages = read if read is not None else ({}, {})
    return fitted(
        CodeSeen,
        files=_digest(files.items()),
        packages=_digest(packages.items()),
        environment=_digest(variables_told(environment())),
    )


def code_parts() -> list[CodePart]:
    """Return the files, packages and variables behind the digests, at most MAX_CODE_ROWS; for the link's thread."""
    read = _files.read()
    files, packages = read if read is not None else ({}, {})
    parts: list[tuple[CodeKind, Iterable[tuple[str, str]]]] = [
        (CodeKind.FILE, sorted(files.items())),
        (CodeKind.VARIABLE, variables_told(environment())),
        (CodeKind.PACKAGE, sorted(packages.items())),
    ]
    found = [
        fitted(CodePart, kind=kind, name=printable(name), value=value) for kind, rows in parts for name, value in rows
    ]
    return found[:MAX_CODE_ROWS]


def _digest(parts: Iterable[tuple[str, str]]) -> str:
    text = "\0".join(f"{name}\0{value}" for name, value in sorted(parts))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest() if text else ""
