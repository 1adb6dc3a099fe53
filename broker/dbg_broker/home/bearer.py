"""Who holds a token: what its bearer may be, what limits that, and the tokens issued to somebody.

Issued tokens have a name, a role, perhaps one job and an end; they are kept as digests, so that none can be read here.
Their list is one file of the home. A broker reads it at its start, and again when ``dbg-broker token`` has changed it.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from dbg_broker.home.private_files import read_private, write_private
from dbg_wire.errors import BadInput, BadSecretFile, printable

ISSUED_FILE = "issued-tokens.json"

MAX_ISSUED = 1000
"""Tokens in the list: enough for a team of a hundred; each request with an unknown token looks through it."""

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
JOB = re.compile(r"[A-Za-z0-9._-]{1,200}")

Seconds = Annotated[float, msgspec.Meta(gt=-1e12, lt=1e12)]
"""Seconds since the epoch."""


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
    ``expires`` is in seconds since the epoch, None for never; connections end then. ``dial_by`` is when the token stops
    opening connections, and those that it has opened stay.
    """

    role: Role
    digest: bytes = b""
    name: str = ""
    job: str | None = None
    expires: float | None = None
    dial_by: float | None = None

    @property
    def shown(self) -> str:
        """Return the bearer as a log names it, e.g. ``a watcher (alice)``."""
        return f"a {self.role.value}{f' ({self.name})' if self.name else ''}"

    @property
    def shared_digest(self) -> bytes | None:
        """Return what tells the token from others if it is in the hands of others; None for a home's own."""
        return self.digest if self.name or self.job is not None else None

    def may_see(self, job: str) -> bool:
        """Tell whether a job is the bearer's business."""
        return self.job is None or self.job == job

    def is_expired(self, now: float) -> bool:
        """Tell whether the token opens no connection any more; ``now`` is in seconds since the epoch."""
        return any(end is not None and end <= now for end in (self.expires, self.dial_by))


ANY_RANK = Bearer(role=Role.RANK)
"""A rank of any job, as stock debuggers are, which have no token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """One token; ``digest`` is the SHA-256 of its text, ``made`` and ``expires`` are seconds since the epoch."""

    name: Annotated[str, msgspec.Meta(pattern=rf"\A{NAME.pattern}\Z")]
    role: Role
    digest: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    made: Seconds
    job: Annotated[str, msgspec.Meta(pattern=rf"\A{JOB.pattern}\Z")] | None = None
    expires: Seconds | None = None

    @property
    def bearer(self) -> Bearer:
        """Return who holds it."""
        return Bearer(
            role=self.role, digest=bytes.fromhex(self.digest), name=self.name, job=self.job, expires=self.expires
        )


class _IssuedTokens(msgspec.Struct, frozen=True):
    """The list as the file has it."""

    tokens: Annotated[tuple[IssuedToken, ...], msgspec.Meta(max_length=MAX_ISSUED)]
    schema: Literal[1] = 1


def load_issued(home: Path) -> tuple[IssuedToken, ...]:
    """Return the tokens of a home, none if there is no list. Raise BadSecretFile if it can't be used."""
    path = home / ISSUED_FILE
    text = read_private(path)
    if text is None:
        return ()
    try:
        found = msgspec.convert(json.loads(text), _IssuedTokens).tokens
        if len({one.name for one in found}) < len(found):
            raise ValueError
    except (ValueError, RecursionError):
        raise BadSecretFile(
            f"{printable(str(path))} is no list of tokens of this release",
            "remove it, which revokes all tokens that have a name, and make new ones by `dbg-broker token --name NAME`",
        ) from None
    return found


def save_issued(home: Path, tokens: Iterable[IssuedToken]) -> None:
    """Write the list in place of an older one. Raise BadSecretFile."""
    document = msgspec.to_builtins(_IssuedTokens(tuple(tokens)))
    write_private(home / ISSUED_FILE, json.dumps(document, indent=1) + "\n")


def with_token(tokens: tuple[IssuedToken, ...], new: IssuedToken) -> tuple[IssuedToken, ...]:
    """Return the list with one more token. Raise BadInput if its name is taken, or if there are too many."""
    if any(one.name == new.name for one in tokens):
        raise BadInput(f"a token has the name {new.name!r} already", "take another one, or revoke that one first")
    if len(tokens) >= MAX_ISSUED:
        raise BadInput(f"{len(tokens)} tokens have been made", "revoke some; `dbg-broker token --list` names them")
    return (*tokens, new)


def without_token(tokens: tuple[IssuedToken, ...], name: str) -> tuple[IssuedToken, ...]:
    """Return the list without the token of this name. Raise BadInput if there is none."""
    left = tuple(one for one in tokens if one.name != name)
    if len(left) == len(tokens):
        raise BadInput(f"no token has the name {printable(name)!r}", "`dbg-broker token --list` shows all names")
    return left
