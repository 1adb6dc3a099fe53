"""Credentials for NATS: a user with a password, or a token, from a file that nobody else reads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbg_broker.home.private_files import read_given
from dbg_wire.errors import BadSecretFile, printable

OPTION = "--cluster-credentials"

_LINE = re.compile(r"[!-~]{1,4096}")

_REMEDY = "name a file with a line of user:password or a token; mode 600"


@dataclass(frozen=True, slots=True)
class Login:
    """What a client of NATS presents, as options of its ``connect``; none for servers that ask for nothing."""

    options: dict[str, Any] = field(default_factory=dict, repr=False)


NOBODY = Login()


def read_login(path: Path) -> Login:
    """Return what a file of credentials holds. Raise BadSecretFile, which never quotes it."""
    line = read_given(path, OPTION, _REMEDY).strip()
    if not _LINE.fullmatch(line):
        raise BadSecretFile(f"{OPTION} {printable(str(path))} does not hold credentials for NATS", _REMEDY)
    user, colon, password = line.partition(":")
    return Login({"user": user, "password": password} if colon else {"token": line})
