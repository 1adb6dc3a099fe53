"""Credentials for NATS: a user with a password, or a token, from a file that nobody else reads."""

from __future__ import annotations

import re
from pathlib import Path

from dbg_broker.home.private_files import read_given
from dbg_wire.errors import BadSecretFile, printable

OPTION = "--cluster-credentials"

_LINE = re.compile(r"[!-~]{1,4096}")

_REMEDY = "name a file with a line of user:password or a token; mode 600"


def read_login(path: Path) -> dict[str, str]:
    """Return what a file of credentials holds, for NATS' client. Raise BadSecretFile, which never quotes it."""
    line = read_given(path, OPTION, _REMEDY).strip()
    if not _LINE.fullmatch(line):
        raise BadSecretFile(f"{OPTION} {printable(str(path))} does not hold credentials for NATS", _REMEDY)
    user, colon, password = line.partition(":")
    return {"user": user, "password": password} if colon else {"token": line}
