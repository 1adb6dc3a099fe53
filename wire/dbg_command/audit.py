"""Entry of the audit log, which the broker writes and a page reads: what happened, who did it, at which ranks. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import msgspec

MAX_LINE = 16 * 1024
"""Bytes of a line that are read; a longer one is not ours."""


class What(str, Enum):
    """What has happened."""

    CONNECT = "connect"
    """A token was used."""
    REFUSE = "refuse"
    """A token was unknown, had expired, or was for something else."""
    LEAVE = "leave"
    ATTACH = "attach"
    TAKE = "take"
    DETACH = "detach"
    QUESTION = "question"
    """Something was asked of ranks, with its text: a value, a command, a stack, a kill."""
    INTERRUPT = "interrupt"
    INPUT = "input"
    """Something was typed; only if the broker was told to note it."""
    TOKEN_MADE = "token-made"  # noqa: S105 - a word
    TOKEN_REVOKED = "token-revoked"  # noqa: S105 - a word
    TOKENS_ROTATED = "tokens-rotated"
    START = "start"
    """The broker serves."""
    END = "end"
    CUT = "cut"
    """Entries were lost, ``count`` of them: the disk was slow or full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event. ``at`` is in seconds since the epoch.

    ``role`` and ``token`` are what the broker knows of who did it: the token's role, and the name that it was made for.
    ``terminal`` is what the terminal calls itself. ``address`` is where it came from. ``ranks`` are a rank set, or one
    rank's address, of ``job``. ``broker`` is the name of the broker in its cluster, if it is in one.
    """

    at: Annotated[float, msgspec.Meta(gt=-1e11, lt=1e11)]
    what: What
    role: str = ""
    token: str = ""
    terminal: str = ""
    address: str = ""
    job: str = ""
    ranks: str = ""
    action: str = ""
    text: str = ""
    count: int = 0
    broker: str = ""


def decode_entry(line: bytes) -> Entry | None:
    """Return the entry of a line; None for a line that is none."""
    try:
        return msgspec.convert(json.loads(line), Entry) if len(line) <= MAX_LINE else None
    except (ValueError, RecursionError):
        return None
