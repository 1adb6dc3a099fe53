"""Journal of a broker: actions of users go to the audit log, and events of jobs to the command of ``--on-event``.

All methods must be called in the event loop's thread, and do not block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from dbg_broker.home.tokens import Bearer
from dbg_broker.journal.audit import AuditFile, shown_ranks
from dbg_broker.journal.command import OnEvent
from dbg_broker.journal.events import EventDetector
from dbg_broker.journal.worker import WorkerThread
from dbg_broker.net import tcp
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_broker.ranks.table import Watcher
from dbg_broker.timers import Timers
from dbg_command.audit import AuditEntry, AuditEvent

REFUSALS_SECONDS = 10.0
"""Period in which all refusals of one host become one entry, in seconds."""

MAX_HOSTS = 20
"""Maximum number of hosts with an entry of their own within REFUSALS_SECONDS; other hosts share one entry. So a flood
of refusals from many addresses writes less than a kilobyte a second, and takes half a day to displace older entries.
"""

MAX_ENTRIES = 10_000
"""Maximum number of entries that wait to be written: some two MB, the actions of a thousand terminals in a second."""

AT_ONCE = 200
"""Maximum number of entries that are written together."""

MAX_EVENTS = 100
"""Maximum number of events that wait for the command. Further ones are dropped: they would be reported too late."""


class _Connection(Protocol):
    @property
    def peer(self) -> str: ...


class Actor(Protocol):
    """Terminal whose actions are recorded."""

    @property
    def bearer(self) -> Bearer: ...
    @property
    def name(self) -> str | None: ...
    @property
    def connection(self) -> _Connection: ...


class Journal(Watcher):
    """Journal of a broker. It records nothing before :meth:`open`."""

    def __init__(self, registry: Registry, timers: Timers) -> None:
        self._registry, self._timers = registry, timers
        self.audit: Callable[[AuditEntry], None] | None = None
        """Writes an entry of the audit log."""
        self.audits_input = False
        self.broker = ""
        """This broker's name in a cluster, or empty."""
        self.occasions: EventDetector | None = None
        """Detects events for the command of ``--on-event``; None without one."""
        self._refusals: dict[str, tuple[float, int]] = {}
        """For each host the time until which its refusals are counted, and their number; "" is for all other hosts."""
        self._close: list[Callable[[], None]] = []
        self._entries: WorkerThread[AuditEntry] | None = None

    def open(self, home: Path, *, audits_input: bool, on_event: OnEvent | None) -> None:
        """Start to write the audit log of a home, and to run a command."""
        self._entries = WorkerThread("dbg-broker-audit", AuditFile(home).put, most=MAX_ENTRIES, at_once=AT_ONCE)
        self.audit, self.audits_input = self._entries.put, audits_input
        self._close.append(self._entries.close)
        if on_event is not None:
            events = WorkerThread("dbg-broker-event", on_event.put, most=MAX_EVENTS)
            self.occasions = EventDetector(lambda event: events.put(replace(event, broker=self.broker)), self._timers)
            self._close += [on_event.end, events.close]

    def close(self) -> None:
        """Write the waiting entries; waiting events are dropped."""
        while self._close:
            self._close.pop()()

    @property
    def lost(self) -> int:
        """Number of entries that are not in the audit log."""
        return 0 if self._entries is None else self._entries.lost

    def rank_changed(self, rank: RankRecord) -> None:
        """Check whether a rank's report or end is an event."""
        if self.occasions is not None:
            self.occasions.rank_changed(rank)

    def rank_gone(self, key: str) -> None:
        """Forget a rank that is no longer listed."""
        if self.occasions is not None:
            self.occasions.forget(key)

    def note(
        self, doer: Actor, what: AuditEvent, keys: Iterable[str] = (), *, action: str = "", text: str = ""
    ) -> None:
        """Record an action of a terminal at these ranks, as one entry for each job."""
        if self.audit is None:
            return
        jobs: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        for key in keys:
            rank = self._registry.find(key)
            if rank is not None:
                jobs[rank.identity.job].append((rank.identity.rank, rank.address))
        for job, ranks in jobs.items() or [("", [])]:
            self.audit(
                AuditEntry(
                    at=self._timers.wall(),
                    what=what,
                    role=doer.bearer.role.value,
                    token=doer.bearer.name,
                    terminal=doer.name or "",
                    address=doer.connection.peer,
                    job=job,
                    ranks=shown_ranks(ranks) if ranks else "",
                    action=action,
                    text=text,
                    broker=self.broker,
                )
            )

    def note_own(self, what: AuditEvent, text: str) -> None:
        """Record an action of the broker itself."""
        self.write(AuditEntry(at=self._timers.wall(), what=what, text=text, broker=self.broker))

    def write(self, entry: AuditEntry) -> None:
        """Write an entry of the audit log, if there is one."""
        if self.audit is not None:
            self.audit(entry)

    def note_refusal(self, peer: str, why: str) -> None:
        """Record that a request was refused; refusals of one host within some seconds are one entry."""
        host, now = tcp.host_of(peer), self._timers.clock()
        if self.occasions is not None:
            self.occasions.refused(host, why)
        if self.audit is None:
            return
        if host not in self._refusals and len(self._refusals) >= MAX_HOSTS:
            self._refusals = {known: (until, count) for known, (until, count) in self._refusals.items() if now < until}
            host = host if len(self._refusals) < MAX_HOSTS else ""
        until, count = self._refusals.get(host, (now, 0))
        if now < until:
            self._refusals[host] = (until, count + 1)
            return
        self._refusals[host] = (now + REFUSALS_SECONDS, 0)
        at = self._timers.wall()
        self.audit(
            AuditEntry(
                at=at, what=AuditEvent.REFUSE, address=peer, text=why.strip(), count=count + 1, broker=self.broker
            )
        )
