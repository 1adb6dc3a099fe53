"""What ranks in a collective wait for: others that have not come to it, or that are stopped or held. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from dbg_client.core.collective_matching import Matched, Standing, standing_of_each
from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankInfo, RankState

MAX_LABEL = 120
"""Characters of a collective and its group."""

NO_STANDINGS: Mapping[str, Standing] = {}
"""No rank has told which collective it is in."""


class StillRanks:
    """How many ranks of each job stand still, by state; the caller's list may be longer than what it shows."""

    def __init__(self, ranks: Iterable[RankInfo]) -> None:
        self._counts = Counter((rank.job, rank.state) for rank in ranks)

    def show_wait(self, collective: str, job: str) -> str:
        """Return what a running rank of a job waits for, as :func:`show_wait`."""
        return show_wait(collective, self._counts[job, RankState.STOPPED], self._counts[job, RankState.HELD])


def show_wait(collective: str, stopped: int, held: int) -> str:
    """Return ``waits in all_reduce for 3 stopped ranks``; empty without a collective or a rank to wait for."""
    counts = [f"{count} {state}" for count, state in ((stopped, "stopped"), (held, "held")) if count]
    if not collective or not counts:
        return ""
    ranks = "rank" if stopped + held == 1 else "ranks"
    return f"waits in {printable(collective, 80)} for {' and '.join(counts)} {ranks}"


def recorded_standings(matched: Iterable[Matched]) -> Mapping[str, Standing]:
    """Return by the rank's key the collective that each rank is in, as far as a library has recorded it."""
    return {key: standing for key, standing in standing_of_each(matched).items() if not standing.group.is_inferred}


def show_standing(standing: Standing) -> str:
    """Return ``waits in all_reduce #3172 of dp_0, 15 of 16 there``, or ``waits in recv #2 of pp from rank 3``.

    The tag of a send or receive, and the root that all ranks have passed, stand behind the group.
    """
    arguments = tag_of(standing) or root_of(standing)
    label = printable(standing.label, MAX_LABEL) + (f" ({arguments})" if arguments else "")
    if standing.has_peer:
        peer = f"rank {standing.peer}" if standing.peer is not None else "any rank"
        return f"waits in {label} {'from' if standing.is_receive else 'to'} {peer}"
    return f"waits in {label}, {len(standing.came)} of {len(standing.group.numbers)} there"


def tag_of(standing: Standing) -> str:
    """Return ``tag 12`` of a send or receive; empty for any tag, for 0, which calls without one have, or an unknown."""
    tag = next((call.tag for call in standing.calls.values()), None) if standing.has_peer else None
    return f"tag {tag}" if tag is not None and tag > 0 else ""


def root_of(standing: Standing) -> str:
    """Return ``root 1`` of a collective if its ranks have passed one root as far as they tell; empty otherwise."""
    roots = list(standing.roots)
    return f"root {roots[0]}" if len(roots) == 1 else ""


def standing_document(standing: Standing | None) -> dict[str, object] | None:
    """Return what becomes the JSON of a collective; of a send or receive two ranks are expected."""
    if standing is None:
        return None
    came, of = len(standing.came), len(standing.group.numbers)
    if standing.has_peer:
        came, of = (1 if standing.missing or standing.unheard else 2), 2
    return {
        "name": standing.name,
        "sequence": standing.sequence,
        "group": standing.group.label,
        "there": came,
        "of": of,
    }
