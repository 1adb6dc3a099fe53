"""Tokens: what peers may do. There are three kinds in three roles: a home's own, issued ones, and those of jobs.

A home's own three are kept over restarts. The token of a job lies in a file of its own: ranks of the job may read it,
and it admits to no other job. It is signed by the home's token of ranks, and no list holds it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.home.issued import ISSUED_FILE, IssuedTokens, load_issued
from dbg_broker.home.private_files import read_private, write_private
from dbg_dial.endpoint import TokenRole, parse_token
from dbg_dial.files import make_private_directory
from dbg_dial.rendezvous import JOB_MARK, JOB_TOKENS_DIRECTORY, code_of, job_token
from dbg_wire.errors import BadSecretFile, printable

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
