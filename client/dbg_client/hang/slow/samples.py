"""What the ranks of one run have told of a sampling, and their clocks on one scale. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_client.core.process_groups import ProcessGroup, Roster, process_groups, read_evidence, rosters
from dbg_client.core.roll_call import Run
from dbg_client.hang.slow.clocks import Passage, RoundTrip, Shift, align
from dbg_wire.messages import RankAnswer
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.samples import GroupArrivals, Sampled, sampled_in

MICROSECONDS = 1_000_000

_SYNCHRONOUS = ("all", "barrier", "reduce_scatter")
"""How the names of collectives begin that nobody leaves before all have come; of the others a few ranks wait alone."""


def is_synchronous(call: str) -> bool:
    """Tell whether nobody leaves a collective before all have come; ``call`` begins with its name."""
    return call.lower().startswith(_SYNCHRONOUS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRun:
    """The ranks of one run that have told something; ``trips`` are questions for the clocks of hosts.

    ``arrivals`` are those of each group, by the group's library and name, and then by rank.
    """

    run: Run
    roster: Roster
    told: Mapping[int, Sampled]
    groups: tuple[ProcessGroup, ...]
    arrivals: Mapping[str, Mapping[int, GroupArrivals]]
    shifts: Mapping[str, Shift]

    def shift(self, number: int) -> float:
        """Return by how many seconds the clock of a rank is ahead."""
        return self.shifts[self.roster[number].rank.host].middle / MICROSECONDS

    def looseness(self, numbers: Sequence[int]) -> float:
        """Return by how many seconds times of these ranks may be compared wrongly: 0 for ranks of one host."""
        hosts = {self.roster[number].rank.host for number in numbers if number in self.roster}
        return sum(sorted(self.shifts[host].looseness for host in hosts)[-2:]) / MICROSECONDS if len(hosts) > 1 else 0.0


def sampled_runs(
    ranks: Sequence[RankInfo],
    answers: Sequence[RankAnswer],
    trips: Mapping[str, Sequence[RoundTrip]],
) -> list[SampledRun]:
    """Return what the ranks of each run have told; ``trips`` are questions for the clocks of hosts."""
    return [_sampled_run(run, roster, trips) for run, roster in rosters(read_evidence(ranks, answers)).items()]


def _sampled_run(run: Run, roster: Roster, trips: Mapping[str, Sequence[RoundTrip]]) -> SampledRun:
    read = ((number, sampled_in(one.answer.rows)) for number, one in roster.items())
    told = {number: sampled for number, sampled in read if sampled is not None}
    arrivals: defaultdict[str, dict[int, GroupArrivals]] = defaultdict(dict)
    groups = tuple(process_groups(run, roster))
    for group in groups:
        for number in group.numbers:
            for row in told[number].arrivals if number in told else ():
                if row.group == group.name and row.came:
                    arrivals[key_of(group)][number] = row
    hosts = {number: roster[number].rank.host for number in told}
    passages = [passage for of_group in arrivals.values() for passage in _passages(of_group, hosts)]
    shifts = align(sorted(set(hosts.values())), trips, passages)
    return SampledRun(run=run, roster=roster, told=told, groups=groups, arrivals=arrivals, shifts=shifts)


def key_of(group: ProcessGroup) -> str:
    """Return what no other group of the run has."""
    return f"{group.library}/{group.name}/{group.label}"


def _passages(arrivals: Mapping[int, GroupArrivals], hosts: Mapping[int, str]) -> list[Passage]:
    """Return the collectives of one group whose end somebody knows, if it spans several hosts."""
    if len({hosts[number] for number in arrivals}) < 2:
        return []
    came: defaultdict[int, dict[str, int]] = defaultdict(dict)
    ended: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for number, row in arrivals.items():
        host = hosts[number]
        for index, sequence in enumerate(row.sequences):
            if not is_synchronous(row.calls[row.which[index]]):
                continue
            at = row.begin + row.came[index]
            came[sequence][host] = max(at, came[sequence].get(host, at))
            if row.ended and row.ended[index] >= 0:
                out = row.begin + row.ended[index]
                ended[sequence][host] = min(out, ended[sequence].get(host, out))
    return [Passage(came[sequence], known) for sequence, known in sorted(ended.items())]
