"""Credentials for NATS: a ``.creds`` file, a user with a password, or a token, from a file that nobody else reads."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbg_broker.home.private_files import read_given
from dbg_wire.errors import BadSecretFile, printable

OPTION = "--cluster-credentials"

_CREDS = re.compile(
    r"-+BEGIN NATS USER JWT-+\s+(?P<jwt>[A-Za-z0-9_.=-]+?)\s+-+END NATS USER JWT-+"
    r".*?-+BEGIN USER NKEY SEED-+\s+(?P<seed>\S+)\s+-+END USER NKEY SEED-+",
    re.DOTALL,
)

_LINE = re.compile(r"[!-~]{1,4096}")

_REMEDY = "name a .creds file of NATS, or one with a line of user:password or a token; mode 600"


@dataclass(frozen=True, slots=True)
class Login:
    """What a client of NATS presents, as options of its ``connect``; none for servers that ask for nothing."""

    options: dict[str, Any] = field(default_factory=dict, repr=False)


NOBODY = Login()


def read_login(path: Path) -> Login:
    """Return what a file of credentials holds. Raise BadSecretFile, which never quotes it."""
    text = read_given(path, OPTION, _REMEDY)
    creds = _CREDS.search(text)
    if creds is not None:
        jwt = creds["jwt"].encode()
        return Login({"signature_cb": _signer(creds["seed"], path), "user_jwt_cb": lambda: bytearray(jwt)})
    line = text.strip()
    if not _LINE.fullmatch(line):
        raise BadSecretFile(f"{OPTION} {printable(str(path))} does not hold credentials for NATS", _REMEDY)
    user, colon, password = line.partition(":")
    return Login({"user": user, "password": password} if colon else {"token": line})


def _signer(seed: str, path: Path) -> Callable[[str], bytes]:
    """Return what signs a server's challenge with a user's key.

    NATS writes the seed in base32: two bytes that say what it is, 32 of the seed, two of a checksum.
    """
    # OpenSSL's Ed25519, which the broker's certificate needs anyway, in place of a package of NATS' own.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
        if len(raw) != 36 or binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
            raise ValueError("checksum")
        key = Ed25519PrivateKey.from_private_bytes(raw[2:34])
    except ValueError:
        raise BadSecretFile(
            f"{OPTION} {printable(str(path))} holds a key that is none", "have it made anew with nsc"
        ) from None
    return lambda nonce: base64.b64encode(key.sign(nonce.encode()))
