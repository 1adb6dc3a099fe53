"""Entry of the audit log: the event, its author, and its ranks. Pure.

The broker writes the log, and ``dbg-broker log`` reads it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import msgspec

MAX_LINE = 16 * 1024
"""Maximum number of bytes of a line; longer lines are not from the broker."""


class AuditEvent(str, Enum):
    """Kind of event."""

    CONNECT = "connect"
    """A terminal has connected with a token."""
    REFUSE = "refuse"
    """A peer was rejected: its token was unknown, had expired, or was not for the requested purpose."""
    LEAVE = "leave"
    ATTACH = "attach"
    TAKE = "take"
    DETACH = "detach"
    QUESTION = "question"
    """A question for ranks was sent, such as for a value, a stack, a command or a kill. The entry has its text."""
    INTERRUPT = "interrupt"
    INPUT = "input"
    """Keys were typed; only if the broker is configured to log them."""
    TOKEN_MADE = "token-made"  # noqa: S105 - not a password
    TOKEN_REVOKED = "token-revoked"  # noqa: S105 - not a password
    TOKENS_ROTATED = "tokens-rotated"
    START = "start"
    """The broker has started to serve."""
    END = "end"
    CUT = "cut"
    """``count`` entries were lost, because the disk was slow or full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One event. ``at`` is in seconds since the epoch.

    ``role`` and ``token`` identify the author: the token's role, and the name that it was made for. ``terminal`` is the
    terminal's own name, ``address`` its network address. ``ranks`` is a rank set or one rank's address, in ``job``.
    ``broker`` is the name of the broker in its cluster, if it is in one.
    """

    at: Annotated[float, msgspec.Meta(gt=-1e11, lt=1e11)]
    what: AuditEvent
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


def decode_entry(line: bytes) -> AuditEntry | None:
    """Parse one line of the log. Return None if it is not a valid entry."""
    try:
        return msgspec.convert(json.loads(line), AuditEntry) if len(line) <= MAX_LINE else None
    except (ValueError, RecursionError):
        return None
