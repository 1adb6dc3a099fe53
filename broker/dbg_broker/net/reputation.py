"""What the addresses of peers have done lately: failed attempts, successes, and requests for pages. Pure.

A failure is an attempt that used the broker's time for nothing: a wrong token, bytes that are no TLS or no request, a
connection that says nothing. Failures make the refusals of an address wait, and put its strangers into the slow line
(`turns.py`). Peers with a token wait in neither: a driver at an address from which wrong tokens flood still gets in,
and a job of thousands of ranks behind one address has no failures. An address is an IPv4 address, or the /64 network of
an IPv6 one, as one host has all addresses of that.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import partial

from dbg_broker.quotas import LruMap, TokenBucket
from dbg_wire.finding.endpoint import ip_of

MAX_ADDRESSES = 4096
"""Addresses that are remembered, 1 MiB together; of more the one that was seen least lately is forgotten."""

HALF_LIFE_SECONDS = 10.0
"""Seconds in which half of an address's failures are forgiven."""

FORGIVEN = 16.0
"""Failures without consequence: the ranks of one host that were started with an old token, each once or twice."""

EARNED = 8.0
"""Failures that one success makes up for: behind an address shared by many, those who get in speak for the others."""

FIRST_DELAY_SECONDS, LAST_DELAY_SECONDS = 0.25, 8.0
"""Seconds that a refusal waits after FORGIVEN failures, doubled after each further FORGIVEN, up to the second."""

MAX_HELD = 512
"""Refusals that wait at the same time; more are answered at once, with 429. Each keeps a connection, 30 KiB."""

MAX_HELD_OF_ADDRESS = 16
"""Refusals of one address that wait at the same time."""

PAGES_PER_SECOND = 20.0
"""Requests of one address for a page: four monitors and a script that looks each second need five."""

PAGES_AT_ONCE = 40.0
"""Requests for pages that may come together: `check` and `status` of all users of a host."""


def network_of(host: str) -> str:
    """Return by what an address is counted, given the host's part of a peer's name."""
    address = ip_of(host) if ":" in host else None
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return host if address is None else str(address)


@dataclass(slots=True)
class _Record:
    at: float
    failures: float = 0.0
    held: int = 0
    pages: TokenBucket | None = None
    """Requests for pages; most addresses ask for none."""

    def move_to(self, now: float) -> None:
        """Let time pass."""
        passed = max(0.0, now - self.at)
        self.failures *= 0.5 ** (passed / HALF_LIFE_SECONDS)
        self.at = now


class Reputation:
    """The standing of each address that was seen lately; ``now`` is in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._standings: LruMap[str, _Record] = LruMap(MAX_ADDRESSES)
        self._held = 0

    def __len__(self) -> int:
        return len(self._standings)

    def failed(self, network: str, now: float) -> None:
        """Note an attempt that came to nothing."""
        self._of(network, now).failures += 1

    def succeeded(self, network: str, now: float) -> None:
        """Note a peer with a token; an address without failures needs no note."""
        if network in self._standings:
            standing = self._of(network, now)
            standing.failures = max(0.0, standing.failures - EARNED)

    def is_slow(self, network: str, now: float) -> bool:
        """Tell whether strangers of an address belong into the slow line."""
        return self.delay(network, now) > 0

    def delay(self, network: str, now: float) -> float:
        """Return the seconds that a refusal of this address waits."""
        if network not in self._standings:
            return 0.0
        over = self._of(network, now).failures - FORGIVEN
        return 0.0 if over <= 0 else min(LAST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(over // FORGIVEN, 16))

    def may_hold(self, network: str, now: float) -> bool:
        """Let one more refusal of an address wait, and return True; False if too many wait."""
        standing = self._of(network, now)
        if self._held >= MAX_HELD or standing.held >= MAX_HELD_OF_ADDRESS:
            return False
        self._held += 1
        standing.held += 1
        return True

    def let_go(self, network: str) -> None:
        """Note that a refusal waits no more."""
        self._held -= 1
        standing = self._standings.get(network)
        if standing is not None and standing.held:
            standing.held -= 1

    def may_ask(self, network: str, now: float) -> bool:
        """Count a request for a page, and tell whether it may be answered."""
        standing = self._of(network, now)
        standing.pages = standing.pages or TokenBucket(now, PAGES_PER_SECOND, PAGES_AT_ONCE)
        return standing.pages.try_spend(1, now)

    def _of(self, network: str, now: float) -> _Record:
        standing = self._standings.use(network, partial(_Record, now))
        standing.move_to(now)
        return standing
