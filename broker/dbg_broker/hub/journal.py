"""What is written down, or told outside, of what happens: the audit log and events; nothing without them.

All methods belong to the event loop's thread, and do not block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from dbg_broker.audit.entries import shown_ranks
from dbg_broker.events.occasions import Occasions
from dbg_broker.hub.links import TerminalLink
from dbg_broker.net import tcp
from dbg_broker.quotas import LruMap
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_broker.timers import Timers
from dbg_wire.records.audit import Entry, What

REFUSALS_SECONDS = 10.0
"""Seconds in which refusals of one address are one entry: a flood of them must not drive the other entries out."""

MAX_ADDRESSES = 1000
"""Addresses whose refusals are told apart; of more the oldest is forgotten."""


class Journal:
    """Journal: the audit log and the events of ``--on-event`` of a broker, as far as there are any."""

    def __init__(self, registry: Registry, timers: Timers) -> None:
        self._registry, self._timers = registry, timers
        self.audit: Callable[[Entry], None] | None = None
        """Writes an entry of the audit log; it does not block."""
        self.audits_input = False
        self.broker = ""
        """This broker's name in a cluster; empty without one."""
        self.occasions: Occasions | None = None
        """Takes what may be an event for the command of ``--on-event``; None without one."""
        self._refusals: LruMap[str, tuple[float, int]] = LruMap(MAX_ADDRESSES)
        """For each host until when its further refusals are only counted, and how many there were."""

    def rank_changed(self, rank: RankRecord) -> None:
        """Take note of what a rank reports, and of its end."""
        if self.occasions is not None:
            self.occasions.rank_changed(rank)

    def forget(self, key: str) -> None:
        """Forget a rank that is no longer listed."""
        if self.occasions is not None:
            self.occasions.forget(key)

    def note(
        self, link: TerminalLink, what: What, keys: Iterable[str] = (), *, action: str = "", text: str = ""
    ) -> None:
        """Note what a terminal does to these ranks, an entry for each job."""
        if self.audit is None:
            return
        jobs: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        for key in keys:
            rank = self._registry.find(key)
            if rank is not None:
                jobs[rank.identity.job].append((rank.identity.rank, rank.address))
        for job, ranks in jobs.items() or [("", [])]:
            self.audit(
                Entry(
                    at=self._timers.wall(),
                    what=what,
                    role=link.bearer.role.value,
                    token=link.bearer.name,
                    terminal=link.name or "",
                    address=link.connection.peer,
                    job=job,
                    ranks=shown_ranks(ranks) if ranks else "",
                    action=action,
                    text=text,
                    broker=self.broker,
                )
            )

    def note_refusal(self, peer: str, why: str) -> None:
        """Note that a request from ``peer`` was refused, so many of one host in one entry."""
        host = tcp.host_of(peer)
        if self.occasions is not None:
            self.occasions.refused(host, why)
        if self.audit is None:
            return
        now = self._timers.clock()
        until, count = self._refusals.get(host) or (now, 0)
        if now < until:
            self._refusals.put(host, (until, count + 1))
            return
        self._refusals.put(host, (now + REFUSALS_SECONDS, 0))
        entry = Entry(
            at=self._timers.wall(),
            what=What.REFUSE,
            address=peer,
            text=why.strip(),
            count=count + 1,
            broker=self.broker,
        )
        self.audit(entry)
