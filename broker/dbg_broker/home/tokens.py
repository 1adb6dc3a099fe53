"""Tokens: what peers may do. There are three kinds in three roles: a home's own, issued ones, and those of runs.

A home's own three are kept over restarts. The token of a run's job lies in a file of its own: ranks of the job may read
it, and it admits to no other job. Two variants keep what docs/security.md promises: a broker without TLS throws its own
tokens away at its end, and one that keeps the driver's token out of files hands out tokens that open connections for a
while. These, like a job's token, are signed by one of the home's own, and no list holds them.
"""

from __future__ import annotations

import base64
import contextlib
import enum
import functools
import hashlib
import hmac
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import msgspec

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.home.issued import IssuedTokens, load_issued
from dbg_broker.home.private_files import make_private_directory, read_private, write_private
from dbg_wire.errors import BadSecretFile, printable
from dbg_wire.finding.endpoint import THROW_AWAY_MARK, TokenRole, is_throw_away, parse_token

TOKEN_BYTES = 32
"""256 bits: out of reach of guessing, and 43 characters long in a file."""

TOKENS_DIRECTORY = "tokens"

THROW_AWAY_DIRECTORY = "insecure-tokens"
"""Where the tokens of a broker without TLS are, as long as it serves."""

JOB_MARK = "job."
"""Prefix of a signed token that admits ranks of one job; the job's name and an HMAC by the rank's token follow."""

DIAL_MARK = "dial."
"""Prefix of a signed, expiring token; role, end and an HMAC by the role's token follow."""

_DIAL = re.compile(r"dial\.(driver|watcher)\.([0-9]{1,12})\.[A-Za-z0-9_-]{43}")

CHALLENGE = re.compile(r"[0-9a-f]{32,128}")
"""What a broker without TLS proves its tokens for: hex digits, and so no words of anything else."""

_MADE = re.compile(r"[A-Za-z0-9_-]{43}")
"""The form of TOKEN_BYTES, which nobody guesses from a code that is made with them."""

PATHS: Mapping[str, frozenset[Role]] = MappingProxyType(
    {
        "/agent": frozenset({Role.RANK}),
        "/client": frozenset({Role.DRIVER, Role.WATCHER}),
    }
)
"""Which roles may open which path; a path that isn't here is closed to all."""

JOB_TOKENS_DIRECTORY = "job-tokens"

MAX_KEPT = 100
"""Files of jobs that are not known to be over: a job outlives its run if its terminal is closed, and may dial again."""

OVER_MODE = 0o400
"""The mode of a file whose job is over."""


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

    def for_a_while(self, role: Role, ends: int) -> str:
        """Return a token of a terminal that opens connections until a time, in seconds since the epoch.

        No list holds such tokens; a broker that ends, or has other tokens of its own, knows them no more.
        """
        return f"{DIAL_MARK}{role.value}.{ends}.{_code(self.of(role), Purpose.DIAL, f'{role.value} until {ends}')}"

    def site(self) -> str:
        """Return a text that homes with the same three tokens have in common, and that shows nothing of these."""
        codes = [_code(self.of(role), Purpose.SITE, role.value) for role in Role]
        return _digest(".".join(codes)).hex()[:32]

    def _signed_bearer(self, presented: str) -> tuple[Bearer, ...]:
        """Return whom a signed token claims to be of, with the digest of the right one; none for other tokens."""
        found = _DIAL.fullmatch(presented)
        job = presented.removeprefix(THROW_AWAY_MARK).removeprefix(JOB_MARK).rpartition(".")[0]
        if found is not None:
            claimed = Bearer(role=Role(found[1]), dial_by=float(found[2]))
        elif job:
            claimed = Bearer(role=Role.RANK, job=job)
        else:
            return ()
        return (replace(claimed, digest=_digest(self._text_of(claimed))),)

    def _text_of(self, bearer: Bearer) -> str:
        """Return the token of somebody who has no name."""
        if bearer.dial_by is not None:
            return self.for_a_while(bearer.role, int(bearer.dial_by))
        return self.of(bearer.role) if bearer.job is None else self.for_job(bearer.job)

    def still_know(self, bearer: Bearer) -> bool:
        """Tell whether the token of somebody who is connected is still one of these; who has none keeps the place."""
        if not bearer.digest:
            # A stock debugger.
            return True
        if bearer.name:
            return any(hmac.compare_digest(one.bearer.digest, bearer.digest) for one in self.issued.tokens)
        return hmac.compare_digest(bearer.digest, _digest(self._text_of(bearer)))

    def proofs(self, challenge: str) -> tuple[str, ...]:
        """Return for each throw-away token the answer to a challenge that only its holder can give; none for others.

        Anybody may ask. A lasting token needs no proof, since the certificate tells the broker from an impostor.
        """
        own = [self.of(role) for role in Role]
        return tuple(
            proof(token, challenge) for token in own if is_throw_away(token) and CHALLENGE.fullmatch(challenge)
        )


def proof(token: str, challenge: str) -> str:
    """Return a proof of knowing a token, which doesn't show the token."""
    return _code(token, Purpose.PROOF, challenge)


def job_token(rank_token: str, job: str) -> str:
    """Return a token for ranks of one job. The home's token of ranks makes it, and tells that it is right.

    No list holds such tokens, so that a run needs no change of a broker that serves already.
    """
    mark = THROW_AWAY_MARK if is_throw_away(rank_token) else ""
    return f"{mark}{JOB_MARK}{job}.{_code(rank_token, Purpose.JOB, job)}"


def digest_of(token: str) -> str:
    """Return the digest by which an issued token is kept."""
    return _digest(token).hex()


def _prepared(tokens: Tokens) -> Tokens:
    """Return the tokens, typed ones stretched: no stranger's request makes the broker's loop stop for that later."""
    for role in Role:
        _key(tokens.of(role))
    return tokens


class Purpose(enum.Enum):
    """What a code is made for. A code for one purpose is worth nothing for another: none begins as another one does."""

    PROOF = "dbg-broker proof: "
    JOB = "dbg-broker job: "
    DIAL = "dbg-broker dial: "
    SITE = "dbg-broker site: "


def _code(token: str, purpose: Purpose, what: str) -> str:
    code = hmac.new(_key(token), f"{purpose.value}{what}".encode("utf-8", "surrogatepass"), hashlib.sha256)
    return base64.urlsafe_b64encode(code.digest()).decode().rstrip("=")


@functools.lru_cache(maxsize=16)
def _key(token: str) -> bytes:
    """Return the HMAC key of a token: one that somebody typed goes through scrypt, as others hold codes made with it.

    Each guess then takes the guesser 16 MiB and a tenth of a second.
    """
    if _MADE.fullmatch(token.removeprefix(THROW_AWAY_MARK)):
        return token.encode()
    return hashlib.scrypt(token.encode(), salt=b"dbg-broker token", n=2**14, r=8, p=1)


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
    return _prepared(tokens)


def load_tokens_without_files(home: Path, before: Tokens | None, driver: str | None) -> Tokens:
    """Return the home's token of ranks with tokens of terminals that no file holds; files that held some are removed.

    They are those of ``before`` unless the token of ranks has changed since. ``driver`` is the driver's token that the
    user gave, None to make one. Names that were made for terminals are left out: any process of the user could have
    written that list. Raise BadSecretFile as :func:`load_tokens` does.
    """
    tokens = load_tokens(home)
    with contextlib.suppress(OSError):
        for role in (Role.DRIVER, Role.WATCHER):
            (home / TOKENS_DIRECTORY / role.value).unlink(missing_ok=True)
    is_same = before is not None and before.rank == tokens.rank
    made = before if before is not None and is_same else None
    return _prepared(
        Tokens(
            rank=tokens.rank,
            driver=driver or (new_token() if made is None else made.driver),
            watcher=new_token() if made is None else made.watcher,
            issued=msgspec.structs.replace(
                tokens.issued, tokens=tuple(one for one in tokens.issued.tokens if one.role is Role.RANK)
            ),
        )
    )


def rotate_tokens(home: Path) -> Tokens:
    """Replace the three tokens of a home by new ones and return these. Raise BadSecretFile."""
    load_tokens(home)
    for role in Role:
        write_private(home / TOKENS_DIRECTORY / role.value, new_token() + "\n")
    return load_tokens(home)


def make_throw_away_tokens(home: Path) -> Tokens:
    """Return new tokens for one broker without TLS, kept in files of mode 0600 for job scripts. Raise BadSecretFile.

    Lasting tokens would stay known to a listener on the network, or to a program that takes the port later.
    """
    directory = _directory(home / THROW_AWAY_DIRECTORY)
    tokens = Tokens(rank=_throw_away_token(), driver=_throw_away_token(), watcher=_throw_away_token())
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


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def _throw_away_token() -> str:
    return f"{THROW_AWAY_MARK}{new_token()}"


def _load_token(path: Path) -> str:
    text = read_private(path)
    if text is not None:
        return parse_token(text, source=str(path))
    token = new_token()
    write_private(path, token + "\n")
    return token


def write_job_token(home: Path, job: str, token: str) -> Path:
    """Write the token of a job, and return its file; those of jobs that are over are removed. Raise BadSecretFile."""
    directory = _directory(home / JOB_TOKENS_DIRECTORY)
    path = directory / job
    write_private(path, token + "\n")
    others = sorted((file for file in directory.iterdir() if file != path), key=_order)
    over = sum(1 for file in others if _is_over(file))
    for file in others[: max(over, len(others) - MAX_KEPT)]:
        file.unlink(missing_ok=True)
    return path


def job_is_over(path: Path) -> None:
    """Mark a job's token as one that the next run removes: a guard may still have to tell how its rank has ended."""
    with contextlib.suppress(OSError):
        path.chmod(OVER_MODE)


def renew_job_tokens(home: Path, tokens: Tokens) -> None:
    """Write the tokens of all jobs anew after the rank's token has changed. Raise BadSecretFile."""
    with contextlib.suppress(FileNotFoundError):
        for file in list((home / JOB_TOKENS_DIRECTORY).iterdir()):
            write_private(file, tokens.for_job(file.name) + "\n")


def _is_over(file: Path) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_IMODE(file.stat().st_mode) == OVER_MODE
    return False


def _order(file: Path) -> tuple[bool, float]:
    """Return what sorts the files of jobs that are over before the others, and older ones before newer ones."""
    with contextlib.suppress(OSError):
        return not _is_over(file), file.stat().st_mtime
    return True, 0.0
