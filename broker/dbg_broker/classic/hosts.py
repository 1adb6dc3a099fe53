"""What stock sessions are called: the host they come from, and a number there."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections import defaultdict

MAX_HOST = 63
"""Characters of a host's name, DNS's own bound for a label."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")


class SessionNumbers:
    """Numbers of sessions: each has the smallest number that is free on its host until it ends."""

    def __init__(self) -> None:
        self._taken: defaultdict[str, set[int]] = defaultdict(set)

    def take(self, host: str) -> int:
        """Return a number that no other session on this host has."""
        taken = self._taken[host]
        number = next(number for number in range(1, len(taken) + 2) if number not in taken)
        taken.add(number)
        return number

    def give_back(self, host: str, number: int) -> None:
        """Let the number be taken again."""
        self._taken[host].discard(number)
        if not self._taken[host]:
            del self._taken[host]


def is_loopback(address: str) -> bool:
    """Tell whether an address, or ``localhost``, is this host's loopback; no other name is looked up."""
    if address.lower() == "localhost":
        return True
    try:
        found = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def host_name(address: str, own_name: str) -> str:
    """Return the name that ranks on the host with this address most likely use for it.

    It is the short name, or the address if no name is found. The look-up may wait for the network.
    """
    if is_loopback(address):
        return short_name(own_name)
    try:
        name = socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]
    except (OSError, UnicodeError):
        return plain_address(address)
    return short_name(name)


def plain_address(address: str) -> str:
    """Return an address as it can stand in a target: dashes replace the colons of IPv6."""
    return _NOT_IN_NAMES.sub("-", address.removeprefix("::ffff:").partition("%")[0])[:MAX_HOST]


def short_name(name: str) -> str:
    """Return a host's name up to its first dot, reduced to what may stand in an address."""
    return _NOT_IN_NAMES.sub("-", name.partition(".")[0])[:MAX_HOST] or "unknown"
