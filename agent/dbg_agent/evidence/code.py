"""Digests of the files, packages and environment that this process runs with."""

from __future__ import annotations

from dbg_wire.evidence import CodePart, CodeSeen


def code_seen() -> CodeSeen:
    """Return one digest for the files, one for the packages, and one for the environment."""
    return CodeSeen()


def code_parts() -> list[CodePart]:
    """Return the files, packages and variables behind the digests."""
    return []
