"""Facts that ranks of this broker need about ranks at other brokers: arrivals, crashes and ends. Pure."""

from __future__ import annotations

from dbg_broker.ranks.failures import how_it_failed, is_kept
from dbg_broker.ranks.rank_record import RankRecord, RunName
from dbg_wire.messages import Arrival
from dbg_wire.records.ranks import LIVE_STATES, RankState
from dbg_wire.records.record import Count, FreeText, Key, Name, RankNumber, Real, Record

MAX_FACTS = 200_000
"""Maximum number of facts about ranks at other brokers, some 300 bytes each; a new fact beyond it displaces the oldest.
"""


class RankFact(Record, array_like=True):
    """Facts about a rank that ranks at other brokers need: its state, its arrivals, whether it is kept after a crash.

    ``failure`` describes how the rank failed; it is empty if it did not. ``ended`` and ``left`` are times as in
    RankRecord, and 0 while the rank is live.
    """

    key: Key
    job: Name
    run: Name
    number: RankNumber
    is_child: bool
    epoch: Count
    state: RankState
    arrivals: tuple[Arrival, ...]
    is_kept: bool
    ended: Real
    left: Real
    failure: FreeText

    @property
    def launch(self) -> RunName:
        """Job and run of the rank."""
        return self.job, self.run

    @property
    def is_live(self) -> bool:
        """Whether the rank's connection is up."""
        return self.state in LIVE_STATES

    @property
    def is_news(self) -> bool:
        """Whether other brokers need this fact: the rank has arrivals, is kept, has exited, or changed its broker."""
        return bool(self.epoch > 1 or self.arrivals or self.is_kept or self.state is RankState.EXITED)

    def delayed(self, seconds: float) -> RankFact:
        """Return the fact with its times moved by some seconds, to convert them from another broker's clock."""
        return self if self.is_live else self.replace(ended=self.ended + seconds, left=self.left + seconds)


def fact_of(rank: RankRecord) -> RankFact:
    """Return the fact about a rank for other brokers."""
    return RankFact(
        key=rank.key,
        job=rank.identity.job,
        run=rank.identity.run,
        number=rank.identity.rank,
        is_child=rank.child is not None,
        epoch=rank.registration.epoch,
        state=rank.state,
        arrivals=rank.report.arrivals,
        is_kept=is_kept(rank),
        ended=0.0 if rank.is_live else rank.end.at,
        left=0.0 if rank.is_live else rank.end.left,
        failure=how_it_failed(rank),
    )


class RemoteRanks:
    """Facts by the rank's key, each with the name of the broker that sent it."""

    def __init__(self) -> None:
        self._facts: dict[str, tuple[str, RankFact]] = {}

    def find(self, key: str) -> RankFact | None:
        """Return the fact about a rank, or None if no broker has sent one."""
        found = self._facts.get(key)
        return None if found is None else found[1]

    def has(self, rank: RankRecord) -> bool:
        """Return True if a rank of this broker has moved to another broker."""
        fact = self.find(rank.key)
        return fact is not None and fact.epoch > rank.registration.epoch

    def enter(self, broker: str, fact: RankFact) -> bool:
        """Store a fact from a broker. Return False and ignore it if another broker sent a newer one."""
        known = self._facts.get(fact.key)
        if known is not None and known[0] != broker and known[1].epoch > fact.epoch:
            return False
        self._facts.pop(fact.key, None)
        self._facts[fact.key] = broker, fact
        if len(self._facts) > MAX_FACTS:
            del self._facts[next(iter(self._facts))]
        return True

    def drop(self, broker: str, key: str) -> bool:
        """Forget the fact that a broker sent about a rank. Return True if there was one."""
        known = self._facts.get(key)
        if known is None or known[0] != broker:
            return False
        del self._facts[key]
        return True

    def reported_by(self, broker: str) -> list[RankFact]:
        """Return the facts that a broker sent."""
        return [fact for teller, fact in self._facts.values() if teller == broker]
