"""The driver's token that no file holds: typed at the broker's start, or made and told to terminals of this host."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from dbg_broker.audit.entries import Entry, What
from dbg_broker.home.bearer import Role
from dbg_broker.home.tokens import Tokens, load_tokens, load_tokens_without_files, new_token
from dbg_broker.net.memory_socket import MemorySocket
from dbg_broker.verbs.material import Material
from dbg_dial.ask import ask_secret, show_secret
from dbg_dial.memory import socket_directories, socket_name
from dbg_wire.errors import BadInput
from dbg_wire.finding.endpoint import parse_token
from dbg_wire.finding.rendezvous import DriverTokenPlace, format_rendezvous

MAX_SECONDS = 7 * 86400.0
"""Seconds for which a token from memory opens connections at most; the broker's end ends it in any case."""

_PROMPT = "Driver's token for this broker (empty: make one): "


def token_source(home: Path, place: DriverTokenPlace) -> Callable[[Tokens | None], Tokens]:
    """Return what loads the tokens of a broker; the user is asked at once for one that is typed. Raise DbgError."""
    if place == "file":
        return lambda before: load_tokens(home)
    driver = _typed() if place == "ask" else None
    return partial(load_tokens_without_files, home, driver=driver)


def _typed() -> str:
    text = ask_secret(_PROMPT)
    if text:
        return parse_token(text, source="what was typed")
    made = new_token()
    show_secret(f"The driver's token, shown this once:  {made}")
    return made


async def open_socket(
    home: Path, material: Material, environ: Mapping[str, str], note: Callable[[Entry], None]
) -> MemorySocket:
    """Return the socket at which terminals of this host get a token; ``note`` gets an entry for each.

    Raise BadInput if there is no place for it.
    """
    answer = partial(_answer, material, note)
    opened = MemorySocket(socket_directories(environ, os.getuid()), socket_name(str(home)), answer)
    if await opened.open() is None:
        raise BadInput(
            "--driver-token memory needs a directory of this host that is yours alone", "set XDG_RUNTIME_DIR to one"
        )
    return opened


def _answer(material: Material, note: Callable[[Entry], None], pid: int, seconds: float) -> str:
    seconds = min(max(seconds, 1.0), MAX_SECONDS)
    now = time.time()
    tokens = {role.value: material.tokens.for_a_while(role, int(now + seconds)) for role in (Role.DRIVER, Role.WATCHER)}
    note(
        Entry(
            at=now,
            what=What.TOKEN_HANDED,
            role=Role.DRIVER.value,
            address=f"pid {pid} of this host",
            text=f"opens connections for {seconds:.0f} s",
        )
    )
    return format_rendezvous(replace(material.rendezvous(), tokens=tokens))
