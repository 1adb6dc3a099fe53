"""Tokens of a home, and who holds each: what its bearer may be, and what limits that."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec

from dbg_broker.home.private_files import read_private, write_private
from dbg_broker.home.rendezvous import tokens_locked
from dbg_command.home import JOB_MARK, JOB_TOKENS_DIRECTORY, code_of, job_token, make_private_directory
from dbg_dial.endpoint import TokenRole, parse_token
from dbg_wire.errors import BadInput, BadSecretFile, printable

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


TOKEN_BYTES = 32
"""256 bits: out of reach of guessing, and 43 characters long in a file."""

TOKENS_DIRECTORY = "tokens"

PATHS: Mapping[str, frozenset[Role]] = MappingProxyType(
    {
        "/agent": frozenset({Role.RANK}),
        "/client": frozenset({Role.DRIVER, Role.WATCHER}),
    }
)
"""Which roles may open which path; a path that isn't here is closed to all."""


def may_open(role: Role, path: str) -> bool:
    """Tell whether a role may open a WebSocket at a path."""
    return role in PATHS.get(path, frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The three tokens of one broker, and those that were made for somebody."""

    rank: str = field(repr=False)
    driver: str = field(repr=False)
    watcher: str = field(repr=False)
    issued: IssuedTokens = field(default_factory=IssuedTokens)
    _bearers: tuple[Bearer, ...] = field(init=False, repr=False, compare=False)
    """The holders of the three tokens and of those that were made; each request is compared with them."""

    def __post_init__(self) -> None:
        """Note who holds which token, by its digest."""
        own = [Bearer(role=role, digest=_digest(self.of(role))) for role in Role]
        object.__setattr__(self, "_bearers", (*own, *(one.bearer for one in self.issued.tokens)))

    def of(self, role: Role) -> str:
        """Return the token that makes its bearer a ``role``."""
        return {Role.RANK: self.rank, Role.DRIVER: self.driver, Role.WATCHER: self.watcher}[role]

    def by_name(self) -> dict[TokenRole, str]:
        """Return all three by the words of files and messages."""
        return {"rank": self.rank, **self.of_terminals()}

    def of_terminals(self) -> dict[TokenRole, str]:
        """Return those that ``driver.json`` holds."""
        return {"driver": self.driver, "watcher": self.watcher}

    def for_job(self, job: str) -> str:
        """Return a token for ranks of one job, and of no other."""
        return job_token(self.rank, job)

    def bearer_of(self, header: str | None) -> Bearer | None:
        """Return who an ``Authorization`` header stands for, or None; in the same time for every unknown token."""
        scheme, _, presented = (header or "").partition(" ")
        presented = presented.strip()
        # Digests have one length, so that the time doesn't tell the length of the token either.
        digest = _digest(presented)
        known = [*self._bearers, *self._signed_bearer(presented)]
        matches = [bearer for bearer in known if hmac.compare_digest(digest, bearer.digest)]
        return matches[0] if matches and scheme.lower() == "bearer" else None

    def site(self) -> str:
        """Return a text that homes with the same three tokens have in common, and that shows nothing of these."""
        codes = [code_of(self.of(role), f"dbg-broker site: {role.value}") for role in Role]
        return _digest(".".join(codes)).hex()[:32]

    def _signed_bearer(self, presented: str) -> tuple[Bearer, ...]:
        """Return the bearer that a job's token claims, with the digest of the right one; none for other tokens."""
        job = presented.removeprefix(JOB_MARK).rpartition(".")[0] if presented.startswith(JOB_MARK) else ""
        return (Bearer(role=Role.RANK, job=job, digest=_digest(self.for_job(job))),) if job else ()

    def still_know(self, bearer: Bearer) -> bool:
        """Return whether the token of a connected peer is still one of these; a peer without a token stays."""
        if not bearer.digest:
            # A stock debugger.
            return True
        if bearer.name:
            return any(hmac.compare_digest(one.bearer.digest, bearer.digest) for one in self.issued.tokens)
        token = self.of(bearer.role) if bearer.job is None else self.for_job(bearer.job)
        return hmac.compare_digest(bearer.digest, _digest(token))


def digest_of(token: str) -> str:
    """Return the digest by which an issued token is kept."""
    return _digest(token).hex()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _directory(path: Path) -> Path:
    try:
        make_private_directory(path)
    except OSError as error:
        raise BadSecretFile(
            f"{printable(str(path))} can't be made ({error.strerror})", "set DBG_HOME to a directory of your own"
        ) from error
    return path


def token_files(home: Path) -> tuple[Path, ...]:
    """Return the files from which :func:`load_tokens` reads."""
    return (*(home / TOKENS_DIRECTORY / role.value for role in Role), home / ISSUED_FILE)


def load_tokens(home: Path) -> Tokens:
    """Return the tokens kept in the home; missing ones are made, mode 0600 in a directory of mode 0700.

    Raise BadSecretFile if one is open to others, is no token, or stands for two roles.
    """
    directory = _directory(home / TOKENS_DIRECTORY)
    tokens = Tokens(
        rank=_load_token(directory / Role.RANK.value),
        driver=_load_token(directory / Role.DRIVER.value),
        watcher=_load_token(directory / Role.WATCHER.value),
        issued=load_issued(home),
    )
    if len({tokens.of(role) for role in Role}) < len(Role):
        raise BadSecretFile(
            f"two files in {printable(str(directory))} hold the same token, so a watcher might type",
            "remove one of them and start again",
        )
    return tokens


def rotate_tokens(home: Path) -> Tokens:
    """Replace the three tokens of a home by new ones and return these. Raise BadSecretFile."""
    load_tokens(home)
    for role in Role:
        write_private(home / TOKENS_DIRECTORY / role.value, new_token() + "\n")
    return load_tokens(home)


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def _load_token(path: Path) -> str:
    text = read_private(path)
    if text is not None:
        return parse_token(text, source=str(path))
    token = new_token()
    write_private(path, token + "\n")
    return token


def renew_job_tokens(home: Path, tokens: Tokens) -> None:
    """Write the tokens of all jobs anew after the rank's token has changed. Raise BadSecretFile."""
    with contextlib.suppress(FileNotFoundError):
        for file in list((home / JOB_TOKENS_DIRECTORY).iterdir()):
            write_private(file, tokens.for_job(file.name) + "\n")
