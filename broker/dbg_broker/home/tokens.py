"""What peers may do: three tokens, kept over restarts, and one table of the paths that they open."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from dbg_broker.home.rendezvous import make_private_directory, read_private, write_private
from dbg_wire.endpoint import TokenRole, parse_token
from dbg_wire.errors import BadSecretFile, printable
from dbg_wire.throw_away import MARK

TOKEN_BYTES = 32
"""256 bits: out of reach of guessing, and 43 characters long in a file."""

TOKENS_DIRECTORY = "tokens"

THROW_AWAY_DIRECTORY = "insecure-tokens"
"""Where the tokens of a broker without TLS are, as long as it serves."""

MAX_CHALLENGE = 128
"""Characters of a challenge: twice the 256 bits that the verbs send."""


class Role(enum.Enum):
    """What a token lets its bearer be."""

    RANK = "rank"
    DRIVER = "driver"
    WATCHER = "watcher"


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
    """The three tokens of one broker."""

    rank: str = field(repr=False)
    driver: str = field(repr=False)
    watcher: str = field(repr=False)

    def of(self, role: Role) -> str:
        """Return the token that makes its bearer a ``role``."""
        return {Role.RANK: self.rank, Role.DRIVER: self.driver, Role.WATCHER: self.watcher}[role]

    def by_name(self) -> dict[TokenRole, str]:
        """Return all three by the words of files and messages."""
        return {"rank": self.rank, **self.of_terminals()}

    def of_terminals(self) -> dict[TokenRole, str]:
        """Return those that ``driver.json`` holds."""
        return {"driver": self.driver, "watcher": self.watcher}

    def role_of(self, header: str | None) -> Role | None:
        """Return the role that an ``Authorization`` header stands for, or None; in the same time for every header."""
        scheme, _, presented = (header or "").partition(" ")
        # Digests have one length, so that the time doesn't tell the length of the token either.
        digest = _digest(presented.strip())
        matches = {role: hmac.compare_digest(digest, _digest(self.of(role))) for role in Role}
        return next((role for role, same in matches.items() if same and scheme.lower() == "bearer"), None)

    def proofs(self, challenge: str) -> tuple[str, ...]:
        """Return for each token the answer to a challenge that only a holder of the token can give."""
        return tuple(proof(self.of(role), challenge) for role in Role)


def proof(token: str, challenge: str) -> str:
    """Return a proof of knowing a token, which doesn't show the token."""
    return hmac.new(token.encode(), f"dbg-broker {challenge}".encode(), hashlib.sha256).hexdigest()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def load_tokens(home: Path) -> Tokens:
    """Return the tokens kept in the home; missing ones are made, mode 0600 in a directory of mode 0700.

    Raise BadSecretFile if one is open to others, is no token, or stands for two roles.
    """
    directory = home / TOKENS_DIRECTORY
    try:
        make_private_directory(directory)
    except OSError as error:
        raise BadSecretFile(
            f"{printable(str(directory))} can't be made ({error.strerror})", "set DBG_HOME to a directory of your own"
        ) from error
    tokens = Tokens(**{role.value: _load_token(directory / role.value) for role in Role})
    if len({tokens.of(role) for role in Role}) < len(Role):
        raise BadSecretFile(
            f"two files in {printable(str(directory))} hold the same token, so a watcher might type",
            "remove one of them and start again",
        )
    return tokens


def make_throw_away_tokens(home: Path) -> Tokens:
    """Return new tokens for one broker without TLS, kept in files of mode 0600 for job scripts. Raise BadSecretFile.

    Lasting tokens would stay known to a listener on the network, or to a program that takes the port later.
    """
    directory = home / THROW_AWAY_DIRECTORY
    tokens = Tokens(**{role.value: f"{MARK}{secrets.token_urlsafe(TOKEN_BYTES)}" for role in Role})
    try:
        make_private_directory(directory)
    except OSError as error:
        raise BadSecretFile(
            f"{printable(str(directory))} can't be made ({error.strerror})", "set DBG_HOME to a directory of your own"
        ) from error
    for role in Role:
        write_private(directory / role.value, tokens.of(role) + "\n")
    return tokens


def remove_throw_away_tokens(home: Path) -> None:
    """Remove the files of a broker without TLS that has ended, if there are any."""
    directory = home / THROW_AWAY_DIRECTORY
    with contextlib.suppress(OSError):
        for role in Role:
            (directory / role.value).unlink(missing_ok=True)
        directory.rmdir()


def _load_token(path: Path) -> str:
    text = read_private(path)
    if text is not None:
        return parse_token(text, source=str(path))
    token = secrets.token_urlsafe(TOKEN_BYTES)
    write_private(path, token + "\n")
    return token
