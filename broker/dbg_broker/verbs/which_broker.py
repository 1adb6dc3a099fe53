"""Which broker ``status`` and ``check`` talk to, and with which token."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import dbg_dial.find
from dbg_broker.home.bearer import Role
from dbg_broker.home.rendezvous import read_private, read_rendezvous
from dbg_broker.home.tokens import load_tokens
from dbg_broker.verbs.probe import answers
from dbg_dial.apart import read_apart
from dbg_dial.ask import ask_secret
from dbg_dial.find import RENDEZVOUS_FILE, Opening, Seeker
from dbg_dial.memory import ask_memory
from dbg_wire.errors import BadSecretFile, DbgError, NoBroker, printable
from dbg_wire.finding.endpoint import Reach, TokenRole
from dbg_wire.finding.environment import ASK_TOKEN, TOKEN, TOKEN_FILE

ANSWER_SECONDS = 2.0
"""Seconds given to a broker without TLS to prove its token: on loopback it takes milliseconds."""


class NotServing(DbgError):
    """No broker has left its address in the home."""

    exit_status = 4

    def __init__(self, home: str) -> None:
        super().__init__(home)
        self.home = home

    def __str__(self) -> str:
        where = printable(str(Path(self.home) / RENDEZVOUS_FILE))
        return f"no broker serves this home ({where} is not there); start `dbg-broker serve`, or set DBG_BROKER"


def find_broker(argument: str | None, home: str, environ: Mapping[str, str], role: TokenRole) -> Reach:
    """Return how to reach the broker: the argument, DBG_BROKER, or broker.json in the home.

    Raise NotServing, WrongHost if it is on another host's loopback, BadInput, or SilentFile.
    """
    if role != "rank" and environ.get(ASK_TOKEN, "") not in ("", "0"):
        asked = {name: value for name, value in environ.items() if name != TOKEN_FILE}
        environ = {**asked, TOKEN: ask_secret(f"Token of a {role}: ")}
    try:
        return read_apart(lambda opening: dbg_dial.find.find_broker(_seeker(role, opening), argument, environ, home))
    except NoBroker:
        raise NotServing(home) from None


def _seeker(role: TokenRole, opening: Opening) -> Seeker:
    return Seeker(
        role=role,
        who="rank" if role == "rank" else "terminal",
        argument_name="the URL",
        read_rendezvous=lambda path: read_private(Path(path)),
        read_token=_token_file_text,
        read_memory=partial(ask_memory, environ=os.environ),
        opening=opening,
    )


def token_of(role: Role, home: Path) -> str:
    """Return the token that the home's broker takes: a lasting one, or that of a broker without TLS that serves now.

    Blocks for ANSWER_SECONDS at most. Raise BadSecretFile as load_tokens does.
    """
    with contextlib.suppress(DbgError):
        found = read_rendezvous(home)
        if found is not None and found.driver_token != "file" and role is not Role.RANK:  # noqa: S105 - a word
            is_asked = found.driver_token == "ask"  # noqa: S105 - a word
            return find_broker(None, str(home), {ASK_TOKEN: "1"} if is_asked else {}, role.value).token
        if found is not None and found.fingerprint is None:
            reach = find_broker(None, str(home), {}, role.value)
            if answers(reach.endpoint, reach.token, ANSWER_SECONDS):
                return reach.token
    return load_tokens(home).of(role)


def _token_file_text(path: str) -> str:
    text = read_private(Path(path))
    if text is None:
        raise BadSecretFile(f"the token file {printable(path)} is not there", "set DBG_TOKEN_FILE to the right one")
    return text


Say = Callable[[str], None]
"""Print one line."""
