"""Which broker ``status`` and ``check`` talk to, and with which token."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from dbg_broker.rendezvous import RENDEZVOUS_FILE, read_private, read_rendezvous
from dbg_wire.endpoint import Reach, TokenRole, resolve, wrong_host_reason
from dbg_wire.errors import BadSecretFile, DbgError, WrongHost, printable


class NotServing(DbgError):
    """Say that no broker has left its address in the home."""

    exit_status = 4

    def __init__(self, home: str) -> None:
        super().__init__(home)
        self.home = home

    def __str__(self) -> str:
        where = printable(str(Path(self.home) / RENDEZVOUS_FILE))
        return f"no broker serves this home ({where} is not there); start `dbg-broker serve`, or set DBG_BROKER"


def find_broker(argument: str | None, home: str, environ: Mapping[str, str], role: TokenRole) -> Reach:
    """Return how to reach the broker: the argument, DBG_BROKER, or broker.json in the home.

    Raise NotServing, WrongHost if it is on another host's loopback, or BadInput.
    """
    rendezvous = read_rendezvous(Path(home))
    if argument is None and not environ.get("DBG_BROKER"):
        if rendezvous is None:
            raise NotServing(home)
        reason = wrong_host_reason(rendezvous.endpoint, rendezvous.host, socket.gethostname(), who="terminal")
        if reason is not None:
            raise WrongHost(reason)
    return resolve(
        argument=argument,
        argument_name="the URL",
        environ=environ,
        rendezvous=rendezvous,
        role=role,
        token_file_text=_token_file_text,
    )


def own_name(environ: Mapping[str, str]) -> str:
    """Return who asks, as others see it beside a rank."""
    return f"{environ.get('USER') or os.geteuid()}@{socket.gethostname()}"


def _token_file_text(path: str) -> str:
    text = read_private(Path(path))
    if text is None:
        raise BadSecretFile(f"the token file {printable(path)} is not there", "set DBG_TOKEN_FILE to the right one")
    return text


Say = Callable[[str], None]
"""Print one line."""
