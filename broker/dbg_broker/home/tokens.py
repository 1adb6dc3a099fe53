"""Tokens of a home and their bearers: the role that a token grants, and its limits."""

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
    """Role that a token grants its bearer."""

    RANK = "rank"
    DRIVER = "driver"
    WATCHER = "watcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """The peer that presents a token.

    ``digest`` identifies the token. ``name`` is the token's name; it is empty for a home's own tokens and for tokens
    that are derived from them. ``job`` is the only job that the bearer may join or see, or None for all. ``expires`` is
    in seconds since the epoch, or None for never; the bearer's connections end at that time.
    """

    role: Role
    digest: bytes = b""
    name: str = ""
    job: str | None = None
    expires: float | None = None

    @property
    def shown(self) -> str:
        """Text for the bearer in logs, such as ``a watcher (alice)``."""
        return f"a {self.role.value}{f' ({self.name})' if self.name else ''}"

    def may_see(self, job: str) -> bool:
        """Return True if the bearer may see a job."""
        return self.job is None or self.job == job

    def is_expired(self, now: float) -> bool:
        """Return True if the token is no longer valid; ``now`` is in seconds since the epoch."""
        return self.expires is not None and self.expires <= now


ANY_RANK = Bearer(role=Role.RANK)
"""The bearer of each stock debugger, which has no token: a rank of any job."""


ISSUED_FILE = "issued-tokens.json"

MAX_ISSUED = 1000
"""Maximum number of tokens in the list, enough for a team of a hundred. It is limited because an unknown token is
compared with all of them."""

MAX_REVOKED = 2000
"""Maximum number of tombstones, the records of revoked tokens; the newest are kept. If even more tokens are revoked
while a broker is disconnected, its home may bring a revoked token back."""

NAME_LENGTH = 64

Seconds = Annotated[float, msgspec.Meta(gt=-1e12, lt=1e12)]
"""Seconds since the epoch."""

Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
"""SHA-256 of a token's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """One token, stored as its digest only; ``made`` and ``expires`` are seconds since the epoch."""

    name: Annotated[str, msgspec.Meta(pattern=rf"\A{NAME.pattern}\Z")]
    role: Role
    digest: Digest
    made: Seconds
    job: Annotated[str, msgspec.Meta(pattern=rf"\A{JOB.pattern}\Z")] | None = None
    expires: Seconds | None = None

    @property
    def bearer(self) -> Bearer:
        """The token's ``Bearer``."""
        return Bearer(
            role=self.role, digest=bytes.fromhex(self.digest), name=self.name, job=self.job, expires=self.expires
        )


class RevokedToken(msgspec.Struct, frozen=True, kw_only=True):
    """Tombstone of a token: its digest, and the time of its revocation in seconds since the epoch."""

    digest: Digest
    since: Seconds


class IssuedTokens(msgspec.Struct, frozen=True):
    """List of issued tokens, as in its file and in messages between brokers. Each change returns another list."""

    tokens: Annotated[tuple[IssuedToken, ...], msgspec.Meta(max_length=MAX_ISSUED)] = ()
    revoked: Annotated[tuple[RevokedToken, ...], msgspec.Meta(max_length=MAX_REVOKED)] = ()
    schema: Literal[1] = 1

    def issue(self, new: IssuedToken) -> IssuedTokens:
        """Return the list with one more token. Raise BadInput if its name is taken, or if there are too many."""
        if any(one.name == new.name for one in self.tokens):
            raise BadInput(f"a token has the name {new.name!r} already", "use another name, or revoke that token first")
        if len(self.tokens) >= MAX_ISSUED:
            raise BadInput(
                f"{len(self.tokens)} tokens exist, the maximum", "revoke some; `dbg-broker token --list` names them"
            )
        return msgspec.structs.replace(self, tokens=(*self.tokens, new))

    def revoke(self, name: str, now: float) -> IssuedTokens:
        """Return the list without the token of this name. Raise BadInput if no token has it."""
        found = next((one for one in self.tokens if one.name == name), None)
        if found is None:
            raise BadInput(f"no token has the name {printable(name)!r}", "`dbg-broker token --list` shows all names")
        return self.joined(IssuedTokens(revoked=(RevokedToken(digest=found.digest, since=now),)))

    def joined(self, other: IssuedTokens) -> IssuedTokens:
        """Return the join of both lists: tokens that either list has issued and neither has revoked.

        Neither the order of joins nor a clock matters, so all brokers get the same list. If two tokens have the same
        name, the later one gets another name.
        """
        buried: dict[str, RevokedToken] = {}
        for tombstone in sorted((*self.revoked, *other.revoked), key=lambda one: one.since, reverse=True):
            buried[tombstone.digest] = tombstone
        living: dict[str, IssuedToken] = {}
        # The lists may contain the same token under two names, because a join has renamed it. The new name is longer,
        # so it comes last and is kept.
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
    """Return the tokens with unique names; a token whose name is taken gets another one."""
    named: dict[str, IssuedToken] = {}
    for one in tokens:
        name, digits = one.name, 6
        while name in named:
            name = f"{one.name[: NAME_LENGTH - 1 - digits]}-{one.digest[:digits]}"
            digits += 1
        named[name] = one if name == one.name else replace(one, name=name)
    return tuple(named.values())


def parse_issued(document: str | bytes) -> IssuedTokens:
    """Parse the document of a list. Raise ValueError."""
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
    """Return the issued tokens of a home; the list is empty if it has no file. Raise BadSecretFile if it is invalid."""
    path = home / ISSUED_FILE
    text = read_private(path)
    if text is None:
        return IssuedTokens()
    try:
        return parse_issued(text)
    except ValueError:
        raise BadSecretFile(
            f"{printable(str(path))} is not a list of tokens of this release",
            "remove it, which revokes all named tokens, and make new ones by `dbg-broker token --name NAME`",
        ) from None


def join_issued(home: Path, others: IssuedTokens) -> None:
    """Join a list into the list of the home; wait while a command changes it. Raise BadSecretFile."""
    with tokens_locked(home):
        own = load_issued(home)
        joined = own.joined(others)
        if joined != own:
            save_issued(home, joined)


def save_issued(home: Path, issued: IssuedTokens) -> None:
    """Write the list, replacing an older one. Raise BadSecretFile."""
    write_private(home / ISSUED_FILE, format_issued(issued) + "\n")


TOKEN_BYTES = 32
"""Number of random bytes of a token. Nobody can guess 256 bits. A token has 43 characters in a file."""

TOKENS_DIRECTORY = "tokens"

PATHS: Mapping[str, frozenset[Role]] = MappingProxyType(
    {
        "/agent": frozenset({Role.RANK}),
        "/client": frozenset({Role.DRIVER, Role.WATCHER}),
    }
)
"""Roles that may open each path; any other path is closed to all."""


def may_open(role: Role, path: str) -> bool:
    """Return True if a role may open a WebSocket at a path."""
    return role in PATHS.get(path, frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The three tokens of one broker, and its issued tokens."""

    rank: str = field(repr=False)
    driver: str = field(repr=False)
    watcher: str = field(repr=False)
    issued: IssuedTokens = field(default_factory=IssuedTokens)
    _bearers: tuple[Bearer, ...] = field(init=False, repr=False, compare=False)
    """Bearers of the three tokens and of the issued tokens; each request is compared with them."""

    def __post_init__(self) -> None:
        """Collect the bearer of each token, with its digest."""
        own = [Bearer(role=role, digest=_digest(self.of(role))) for role in Role]
        object.__setattr__(self, "_bearers", (*own, *(one.bearer for one in self.issued.tokens)))

    def of(self, role: Role) -> str:
        """Return the token for a role."""
        return {Role.RANK: self.rank, Role.DRIVER: self.driver, Role.WATCHER: self.watcher}[role]

    def by_name(self) -> dict[TokenRole, str]:
        """Return all three tokens by the names of their roles in files and messages."""
        return {"rank": self.rank, **self.of_terminals()}

    def of_terminals(self) -> dict[TokenRole, str]:
        """Return the tokens for ``driver.json``."""
        return {"driver": self.driver, "watcher": self.watcher}

    def for_job(self, job: str) -> str:
        """Return a token for ranks of one job only."""
        return job_token(self.rank, job)

    def bearer_of(self, header: str | None) -> Bearer | None:
        """Return the bearer of an ``Authorization`` header, or None. It takes the same time for all unknown tokens."""
        scheme, _, presented = (header or "").partition(" ")
        presented = presented.strip()
        # Digests have one length, so the time does not reveal the length of the token either.
        digest = _digest(presented)
        known = [*self._bearers, *self._signed_bearer(presented)]
        matches = [bearer for bearer in known if hmac.compare_digest(digest, bearer.digest)]
        return matches[0] if matches and scheme.lower() == "bearer" else None

    def site(self) -> str:
        """Return an identifier that all homes with the same three tokens have. It reveals nothing about the tokens."""
        codes = [code_of(self.of(role), f"dbg-broker site: {role.value}") for role in Role]
        return _digest(".".join(codes)).hex()[:32]

    def _signed_bearer(self, presented: str) -> tuple[Bearer, ...]:
        """Return a bearer for the job that a token names, or an empty tuple if the token names no job.

        The bearer has the digest of the job's valid token, so the caller finds out whether ``presented`` is valid.
        """
        job = presented.removeprefix(JOB_MARK).rpartition(".")[0] if presented.startswith(JOB_MARK) else ""
        return (Bearer(role=Role.RANK, job=job, digest=_digest(self.for_job(job))),) if job else ()

    def still_know(self, bearer: Bearer) -> bool:
        """Return True if the token of a connected peer is still valid; peers without a token stay valid."""
        if not bearer.digest:
            # A stock debugger.
            return True
        if bearer.name:
            return any(hmac.compare_digest(one.bearer.digest, bearer.digest) for one in self.issued.tokens)
        token = self.of(bearer.role) if bearer.job is None else self.for_job(bearer.job)
        return hmac.compare_digest(bearer.digest, _digest(token))


def digest_of(token: str) -> str:
    """Return the digest under which an issued token is stored."""
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
    """Return the files that :func:`load_tokens` reads."""
    return (*(home / TOKENS_DIRECTORY / role.value for role in Role), home / ISSUED_FILE)


def load_tokens(home: Path) -> Tokens:
    """Return the tokens stored in the home; missing ones are created, mode 0600 in a directory of mode 0700.

    Raise BadSecretFile if a file is open to others, is not a token, or contains the token of another role.
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
            f"two files in {printable(str(directory))} contain the same token, so a watcher could type",
            "remove one of them and start again",
        )
    return tokens


def rotate_tokens(home: Path) -> Tokens:
    """Replace the three tokens of a home, and return the new ones. Raise BadSecretFile."""
    load_tokens(home)
    for role in Role:
        write_private(home / TOKENS_DIRECTORY / role.value, new_token() + "\n")
    return load_tokens(home)


def new_token() -> str:
    """Return a token that can't be guessed."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def _load_token(path: Path) -> str:
    text = read_private(path)
    if text is not None:
        return parse_token(text, source=str(path))
    token = new_token()
    write_private(path, token + "\n")
    return token


def renew_job_tokens(home: Path, tokens: Tokens) -> None:
    """Write the tokens for single jobs again: they are derived from the rank's token, which has changed.

    Raise BadSecretFile.
    """
    with contextlib.suppress(FileNotFoundError):
        for file in list((home / JOB_TOKENS_DIRECTORY).iterdir()):
            write_private(file, tokens.for_job(file.name) + "\n")
