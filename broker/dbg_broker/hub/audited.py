"""What terminals do, as entries of the audit log."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable

from dbg_broker.audit.entries import Entry, What, shown_ranks
from dbg_broker.hub.links import TerminalLink
from dbg_broker.hub.state import Hub
from dbg_broker.net import tcp
from dbg_broker.quotas import LruMap

REFUSALS_SECONDS = 10.0
"""Seconds in which refusals of one address are one entry: a flood of them must not drive the other entries out."""

MAX_ADDRESSES = 1000
"""Addresses whose refusals are told apart; of more the oldest is forgotten."""


def note(
    hub: Hub, link: TerminalLink, what: What, keys: Iterable[str] = (), *, action: str = "", text: str = ""
) -> None:
    """Note what a terminal does to these ranks, an entry for each job."""
    if hub.audit is None:
        return
    jobs: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for key in keys:
        rank = hub.registry.find(key)
        if rank is not None:
            jobs[rank.said.job].append((rank.said.rank, rank.address))
    for job, ranks in jobs.items() or [("", [])]:
        hub.audit(
            Entry(
                at=time.time(),
                what=what,
                role=link.bearer.role.value,
                token=link.bearer.name,
                terminal=link.name or "",
                address=link.connection.peer,
                job=job,
                ranks=shown_ranks(ranks) if ranks else "",
                action=action,
                text=text,
            )
        )


class Refusals:
    """Refused requests, so many of one address in one entry."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._said: LruMap[str, tuple[float, int]] = LruMap(MAX_ADDRESSES)
        """For each host until when its further refusals are only counted, and how many there were."""

    def note(self, peer: str, why: str) -> None:
        """Note that a request from ``peer`` was refused."""
        if self._hub.audit is None:
            return
        host, now = tcp.host_of(peer), self._hub.clock()
        until, count = self._said.get(host) or (now, 0)
        if now < until:
            self._said.put(host, (until, count + 1))
            return
        self._said.put(host, (now + REFUSALS_SECONDS, 0))
        self._hub.audit(Entry(at=time.time(), what=What.REFUSE, address=peer, text=why.strip(), count=count + 1))
