"""Issued tokens of a home: a list of digests, and a two-phase set over the brokers of a cluster.

A token has a name, a role, perhaps one job and an end. The list is one file of the home, which a broker reads at its
start and again when ``dbg-broker token`` has changed it. A token that is taken back leaves a tombstone, so that lists
of several homes can be joined in any order: what one of them has revoked stays revoked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from dbg_broker.home.bearer import JOB, NAME, Bearer, Role
from dbg_broker.home.private_files import read_private, write_private
from dbg_broker.home.rendezvous import tokens_locked
from dbg_wire.errors import BadInput, BadSecretFile, printable

ISSUED_FILE = "issued-tokens.json"

MAX_ISSUED = 1000
"""Tokens in the list: enough for a team of a hundred; each request with an unknown token looks through it."""

MAX_REVOKED = 2000
"""Tombstones, the newest ones. A home that was away for longer than these span may bring a revoked token back."""

NAME_LENGTH = 64

Seconds = Annotated[float, msgspec.Meta(gt=-1e12, lt=1e12)]
"""Seconds since the epoch."""

Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
"""The SHA-256 of a token's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """One token, of which the digest alone is kept; ``made`` and ``expires`` are seconds since the epoch."""

    name: Annotated[str, msgspec.Meta(pattern=rf"\A{NAME.pattern}\Z")]
    role: Role
    digest: Digest
    made: Seconds
    job: Annotated[str, msgspec.Meta(pattern=rf"\A{JOB.pattern}\Z")] | None = None
    expires: Seconds | None = None

    @property
    def bearer(self) -> Bearer:
        """Return who holds it."""
        return Bearer(
            role=self.role, digest=bytes.fromhex(self.digest), name=self.name, job=self.job, expires=self.expires
        )


class RevokedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A tombstone: whose digest it is, and since when in seconds since the epoch."""

    digest: Digest
    since: Seconds


class IssuedTokens(msgspec.Struct, frozen=True):
    """The list, as its file and other brokers have it. Each change returns another list."""

    tokens: Annotated[tuple[IssuedToken, ...], msgspec.Meta(max_length=MAX_ISSUED)] = ()
    revoked: Annotated[tuple[RevokedToken, ...], msgspec.Meta(max_length=MAX_REVOKED)] = ()
    schema: Literal[1] = 1

    def issue(self, new: IssuedToken) -> IssuedTokens:
        """Return the list with one more token. Raise BadInput if its name is taken, or if there are too many."""
        if any(one.name == new.name for one in self.tokens):
            raise BadInput(f"a token has the name {new.name!r} already", "take another one, or revoke that one first")
        if len(self.tokens) >= MAX_ISSUED:
            raise BadInput(
                f"{len(self.tokens)} tokens have been made", "revoke some; `dbg-broker token --list` names them"
            )
        return msgspec.structs.replace(self, tokens=(*self.tokens, new))

    def revoke(self, name: str, now: float) -> IssuedTokens:
        """Return the list without the token of this name. Raise BadInput if there is none."""
        found = next((one for one in self.tokens if one.name == name), None)
        if found is None:
            raise BadInput(f"no token has the name {printable(name)!r}", "`dbg-broker token --list` shows all names")
        return self.joined(IssuedTokens(revoked=(RevokedToken(digest=found.digest, since=now),)))

    def joined(self, other: IssuedTokens) -> IssuedTokens:
        """Return the join of both lists: what either one has issued, and neither has revoked.

        The order doesn't matter, and no clock is asked, so that all brokers come to the same list. Of two tokens of one
        name the later one is given another name.
        """
        buried: dict[str, RevokedToken] = {}
        for tombstone in sorted((*self.revoked, *other.revoked), key=lambda one: one.since, reverse=True):
            buried[tombstone.digest] = tombstone
        living: dict[str, IssuedToken] = {}
        # One that has been renamed has the longer name, and keeps it.
        for token in sorted((*self.tokens, *other.tokens), key=_precedence):
            living[token.digest] = token
        tokens = sorted(
            (one for one in living.values() if one.digest not in buried), key=lambda one: (one.made, one.digest)
        )
        newest = sorted(buried.values(), key=lambda one: (-one.since, one.digest))[:MAX_REVOKED]
        return IssuedTokens(_with_own_names(tokens[:MAX_ISSUED]), tuple(newest))


def _precedence(one: IssuedToken) -> tuple[int, str, str, str, float, float]:
    return len(one.name), one.name, one.role.value, one.job or "", one.made, one.expires or 0.0


def _with_own_names(tokens: list[IssuedToken]) -> tuple[IssuedToken, ...]:
    """Return the tokens, each under a name that no earlier one has."""
    named: dict[str, IssuedToken] = {}
    for one in tokens:
        name, digits = one.name, 6
        while name in named:
            name = f"{one.name[: NAME_LENGTH - 1 - digits]}-{one.digest[:digits]}"
            digits += 1
        named[name] = one if name == one.name else replace(one, name=name)
    return tuple(named.values())


def parse_issued(document: str | bytes) -> IssuedTokens:
    """Return the list that a document holds. Raise ValueError."""
    try:
        found = msgspec.convert(json.loads(document), IssuedTokens)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if len({one.name for one in found.tokens}) < len(found.tokens):
        raise ValueError("two tokens have one name")
    return found


def format_issued(issued: IssuedTokens) -> str:
    """Return the document of a list."""
    return json.dumps(msgspec.to_builtins(issued), separators=(",", ":"))


def load_issued(home: Path) -> IssuedTokens:
    """Return the tokens of a home, none if there is no list. Raise BadSecretFile if it can't be used."""
    path = home / ISSUED_FILE
    text = read_private(path)
    if text is None:
        return IssuedTokens()
    try:
        return parse_issued(text)
    except ValueError:
        raise BadSecretFile(
            f"{printable(str(path))} is no list of tokens of this release",
            "remove it, which revokes all tokens that have a name, and make new ones by `dbg-broker token --name NAME`",
        ) from None


def join_issued(home: Path, others: IssuedTokens) -> None:
    """Join a list into that of the home; wait while a command changes it. Raise BadSecretFile."""
    with tokens_locked(home):
        own = load_issued(home)
        joined = own.joined(others)
        if joined != own:
            save_issued(home, joined)


def save_issued(home: Path, issued: IssuedTokens) -> None:
    """Write the list in place of an older one. Raise BadSecretFile."""
    write_private(home / ISSUED_FILE, format_issued(issued) + "\n")
