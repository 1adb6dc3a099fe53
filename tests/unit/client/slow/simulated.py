"""A training loop whose ranks are simulated: when each comes to its collectives, and what it reports of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dbg_client.slow.collective_timings import RoundTrip, SampledRun, sampled_runs
from dbg_client.slow.explain import RunFindings, find
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.evidence import GroupSeen, SourceSeen
from dbg_wire.records.ranks import Place, RankInfo, RankState
from dbg_wire.records.samples import GroupArrivals, RankSample, SampledPlace, SampleRecord
from tests.unit.client.fake_broker import make_rank

BEGIN = 1_800_000_000_000_000
"""The time of day at which samplings begin, in microseconds."""

SECONDS = 10.0

LOADING = (
    Place(file="/home/me/train.py", line=41, function="main"),
    Place(file="/home/me/data.py", line=17, function="load"),
)
REDUCING = (
    Place(file="/home/me/train.py", line=43, function="main"),
    Place(file="/venv/torch/distributed/distributed_c10d.py", line=9, function="all_reduce"),
)


@dataclass
class Group:
    """A group of ranks that meet in equal steps; ``late`` gives the seconds by which a rank comes late to a step."""

    title: str
    ranks: Sequence[int]
    late: Callable[[int, int], float] = lambda rank, step: 0.0
    steps: int = 50
    pause: float = 0.1
    backend: str = "gloo"
    calls: Sequence[str] = ("all_reduce",)
    start: float = 0.0

    def came(self) -> dict[int, list[float]]:
        """Return when each rank comes to each collective, in seconds: nobody leaves before the last has come."""
        found: dict[int, list[float]] = {rank: [] for rank in self.ranks}
        out = self.start
        for step in range(self.steps):
            times = {rank: out + self.pause + self.late(rank, step) for rank in self.ranks}
            for rank, at in times.items():
                found[rank].append(at)
            out = max(times.values())
        return found


@dataclass
class Job:
    """Simulated ranks; ``hosts`` and ``ahead`` are a host of each rank and by how many seconds its clock is ahead."""

    groups: Sequence[Group]
    hosts: Sequence[str] = ()
    ahead: dict[str, float] = field(default_factory=dict)
    places: dict[int, list[tuple[tuple[Place, ...], list[float]]]] = field(default_factory=dict)
    samples: dict[int, dict[str, object]] = field(default_factory=dict)
    rows: dict[int, list[SampleRecord]] = field(default_factory=dict)
    silent: Sequence[int] = ()
    trips: dict[str, list[RoundTrip]] = field(default_factory=dict)
    state: RankState = RankState.RUNNING

    @property
    def numbers(self) -> list[int]:
        """Return all ranks."""
        return sorted({rank for group in self.groups for rank in group.ranks} | set(range(len(self.hosts))))

    def host(self, number: int) -> str:
        """Return the host of a rank."""
        return self.hosts[number] if self.hosts else "h1"

    def ranks(self) -> list[RankInfo]:
        """Return the ranks as the broker lists them."""
        return [
            make_rank(
                number, state=self.state, reason=None, where=None, world_size=len(self.numbers), host=self.host(number)
            )
            for number in self.numbers
        ]

    def answers(self) -> list[RankAnswer]:
        """Return what each rank reports."""
        came = [(group, group.came()) for group in self.groups]
        return [self._answer(rank, came) for rank in self.ranks()]

    def run(self) -> SampledRun:
        """Return what was reported as a run."""
        (run,) = sampled_runs(self.ranks(), self.answers(), self.trips)
        return run

    def found(self) -> RunFindings:
        """Return what is found."""
        return find(self.run())

    def _answer(self, rank: RankInfo, came: Sequence[tuple[Group, dict[int, list[float]]]]) -> RankAnswer:
        if rank.rank in self.silent:
            return RankAnswer(key=rank.key, kind=Kind.SILENT, text="it did not answer")
        shift = round(1e6 * self.ahead.get(rank.host, 0.0))
        rows: list[SampleRecord] = [
            RankSample(
                clock=BEGIN + shift + round(1e6 * SECONDS),
                start=BEGIN + shift,
                samples=50,
                **{"seconds": SECONDS, **self.samples.get(rank.rank, {})},  # type: ignore[arg-type]
            )
        ]
        for group, times in came:
            if rank.rank in group.ranks and group.steps:
                rows += _rows_of(group, times[rank.rank], shift)
        for frames, samples in self.places.get(rank.rank, []):
            rows.append(SampledPlace(frames=frames, times=tuple(round(1e6 * at) for at in samples)))
        return RankAnswer(key=rank.key, kind=Kind.VALUE, text="", rows=(*rows, *self.rows.get(rank.rank, ())))


def _rows_of(group: Group, came: Sequence[float], shift: int) -> list[SampleRecord]:
    seen = GroupSeen(
        library="torch",
        name=f"{group.title}:{group.backend}",
        title=group.title,
        members=format_ranks(group.ranks),
        size=len(group.ranks),
        backend=group.backend,
    )
    arrivals = GroupArrivals(
        group=seen.name,
        start=BEGIN + shift,
        calls=tuple(group.calls),
        which=tuple(step % len(group.calls) for step in range(len(came))),
        sequences=tuple(range(1, len(came) + 1)),
        came=tuple(round(1e6 * at) for at in came),
    )
    return [seen, arrivals]


def limitation(text: str) -> SourceSeen:
    """Return what a library can't report."""
    return SourceSeen(library="torch", limitation=text)
