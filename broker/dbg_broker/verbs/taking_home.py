"""The home that a broker serves alone: its lock, and whether another broker answers for it."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

from dbg_broker.home.rendezvous import HomeLock, lock, read_rendezvous
from dbg_broker.verbs.probe import answers
from dbg_wire.errors import BadSecretFile, DbgError, printable
from dbg_wire.finding.endpoint import wrong_host_reason
from dbg_wire.finding.rendezvous import Rendezvous

logger = logging.getLogger("dbg_broker")

PROBE_SECONDS = 2.0
"""Seconds given to a broker named by an older broker.json: a broker on this cluster takes milliseconds."""


class AlreadyServing(DbgError):
    """Another broker serves this home already."""

    def __init__(self, home: str, first: Rendezvous | None) -> None:
        super().__init__(home, first)
        self.home = home
        self.first = first

    def __str__(self) -> str:
        shown = printable(self.home)
        if self.first is None:
            return f"another broker is starting in the home {shown}; stop it, or give --home another directory"
        who = f"{printable(self.first.url)} (host {printable(self.first.host)}, pid {self.first.pid})"
        return f"the home {shown} is served already, by {who}; use that one, stop it, or give --home another directory"


def take_home(home: Path) -> HomeLock:
    """Return the home's lock, or raise AlreadyServing if a broker holds it or answers at what broker.json says."""
    held = lock(home)
    try:
        first = read_rendezvous(home)
    except BadSecretFile:
        if held is None:
            raise AlreadyServing(str(home), None) from None
        # The file can't be used, and it is about to be replaced.
        return held
    if held is None:
        raise AlreadyServing(str(home), first)
    if first is not None and _serves_elsewhere(first):
        held.release()
        raise AlreadyServing(str(home), first)
    return held


def _serves_elsewhere(first: Rendezvous) -> bool:
    reason = wrong_host_reason(first.endpoint, first.host, socket.gethostname(), who="terminal")
    if reason is not None:
        logger.warning("broker.json named a broker on the loopback of %s and is replaced", printable(first.host))
        return False
    return answers(first.endpoint, first.tokens.get("rank"), PROBE_SECONDS)
