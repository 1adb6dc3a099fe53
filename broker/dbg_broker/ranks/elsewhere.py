"""Ranks at other brokers, as far as ranks here wait for them: where they have been, and how they have ended. Pure."""

from __future__ import annotations

from dbg_broker.ranks.failures import how_it_failed, is_kept
from dbg_broker.ranks.rank_record import RankRecord, RunName
from dbg_wire.messages import Arrival
from dbg_wire.records.ranks import LIVE_STATES, RankState
from dbg_wire.records.record import Count, FreeText, Key, Name, RankNumber, Real, Record

MAX_FACTS = 200_000
"""Ranks at other brokers of which something is known, some 300 bytes each; of more the oldest news is forgotten."""


class RankFact(Record, array_like=True):
    """What ranks at other brokers have to know of a rank: its state, its arrivals, whether it is kept after a crash.

    ``failure`` says how it has failed, empty if it has not. ``ended`` and ``left`` are times as in its record,
    0 while it is live.
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
        """Return which launch of which job it is of."""
        return self.job, self.run

    @property
    def is_live(self) -> bool:
        """Tell whether its connection is up."""
        return self.state in LIVE_STATES

    @property
    def is_news(self) -> bool:
        """Tell whether it matters to others: nobody waits to hear that a rank runs, and has been at one broker."""
        return bool(self.epoch > 1 or self.arrivals or self.is_kept or self.state is RankState.EXITED)

    def delayed(self, seconds: float) -> RankFact:
        """Return it with later times: they were by another clock."""
        return self if self.is_live else self.replace(ended=self.ended + seconds, left=self.left + seconds)


def fact_of(rank: RankRecord) -> RankFact:
    """Return what others have to know of a rank."""
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


class Elsewhere:
    """The facts by the keys of ranks, each with the name of the broker that has told it."""

    def __init__(self) -> None:
        self._facts: dict[str, tuple[str, RankFact]] = {}

    def find(self, key: str) -> RankFact | None:
        """Return what is known of a rank; None if that is nothing."""
        found = self._facts.get(key)
        return None if found is None else found[1]

    def has(self, rank: RankRecord) -> bool:
        """Tell whether a rank of this broker has gone on to another one."""
        fact = self.find(rank.key)
        return fact is not None and fact.epoch > rank.registration.epoch

    def enter(self, broker: str, fact: RankFact) -> bool:
        """Take what a broker tells; return False if another one knows better."""
        known = self._facts.get(fact.key)
        if known is not None and known[0] != broker and known[1].epoch > fact.epoch:
            return False
        self._facts.pop(fact.key, None)
        self._facts[fact.key] = broker, fact
        if len(self._facts) > MAX_FACTS:
            del self._facts[next(iter(self._facts))]
        return True

    def drop(self, broker: str, key: str) -> bool:
        """Forget what a broker has told of a rank; return whether there was anything."""
        known = self._facts.get(key)
        if known is None or known[0] != broker:
            return False
        del self._facts[key]
        return True

    def told_by(self, broker: str) -> list[RankFact]:
        """Return what a broker has told."""
        return [fact for teller, fact in self._facts.values() if teller == broker]
