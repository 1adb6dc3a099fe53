"""Who holds a token: what its bearer may be, and what limits that."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
JOB = re.compile(r"[A-Za-z0-9._-]{1,200}")


class Role(enum.Enum):
    """What a token lets its bearer be."""

    RANK = "rank"
    DRIVER = "driver"
    WATCHER = "watcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """The holder of a token.

    ``digest`` tells two tokens apart. ``name`` is what the token was made for, empty for a home's own tokens and for
    those that are derived from them. ``job`` is the only job that the bearer may take part in or see, None for all.
    ``expires`` is in seconds since the epoch, None for never; connections end then.
    """

    role: Role
    digest: bytes = b""
    name: str = ""
    job: str | None = None
    expires: float | None = None

    @property
    def shown(self) -> str:
        """Return the bearer as a log names it, e.g. ``a watcher (alice)``."""
        return f"a {self.role.value}{f' ({self.name})' if self.name else ''}"

    def may_see(self, job: str) -> bool:
        """Tell whether a job is the bearer's business."""
        return self.job is None or self.job == job

    def is_expired(self, now: float) -> bool:
        """Tell whether the token opens no connection any more; ``now`` is in seconds since the epoch."""
        return self.expires is not None and self.expires <= now


ANY_RANK = Bearer(role=Role.RANK)
"""A rank of any job, as stock debuggers are, which have no token."""
