"""Which ranks a program means: a target as on the command line, numbers, or groups of its last answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dbg_client.command_line.session_line import read_scope
from dbg_client.core.choose import is_ready
from dbg_client.core.remembered_groups import with_groups
from dbg_wire.errors import BadInput
from dbg_wire.records.ranks import RankInfo
from dbg_wire.targets.selection import Target, parse_target

Wanted = str | int | Sequence[int] | slice
"""Ranks of a job: a target such as ``"0-7"``, ``"stopped"`` or ``"@1"``, a number, several numbers, or a slice."""


def target_text(wanted: Wanted) -> str:
    """Return what a user would type for these ranks. Raises BadInput for what names none."""
    if isinstance(wanted, str):
        return wanted
    if isinstance(wanted, int):
        return str(wanted)
    if isinstance(wanted, slice):
        return _slice_text(wanted)
    numbers = list(wanted) if isinstance(wanted, Iterable) else [wanted]
    if not numbers or not all(isinstance(number, int) for number in numbers):
        raise BadInput(f"{numbers!r} names no rank", "give numbers of ranks, as in job[[0, 3]]")
    return ",".join(map(str, numbers))


def read_wanted(wanted: Wanted, job: str, groups: Mapping[str, frozenset[str]]) -> Target:
    """Return the target of ranks of one job; ``groups`` are the last answer's. Raises BadTarget and UnknownGroup."""
    return read_scope(with_groups(parse_target(target_text(wanted)), groups), job)


def any_target(wanted: Wanted, groups: Mapping[str, frozenset[str]]) -> Target:
    """Return the target of ranks of whatever job."""
    return with_groups(parse_target(target_text(wanted)), groups)


def _slice_text(wanted: slice) -> str:
    start, stop, step = wanted.start or 0, wanted.stop, wanted.step
    if not all(isinstance(number, int | None) for number in (start, stop, step)):
        raise BadInput(f"{wanted} names no rank", "give whole numbers, as in job[0:8]")
    if stop is None and not start and step is None:
        return "all"
    if stop is None or stop <= start:
        raise BadInput(f"a slice of ranks from {start} to {stop} names none", "give its end, as in job[0:8]")
    return f"{start}-{stop - 1}" + (f"/{step}" if step not in (None, 1) else "")


class Memory:
    """The groups of the last answer of one broker, by their names, and the stops that were resumed."""

    def __init__(self) -> None:
        self.groups: Mapping[str, frozenset[str]] = {}
        self._resumed: dict[str, float] = {}

    def keep(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Keep the groups of an answer instead of those before."""
        self.groups = {name: frozenset(keys) for name, keys in groups.items()}

    def note_resumed(self, ranks: Sequence[RankInfo]) -> None:
        """Note that these ranks were told to go on: until the broker lists them anew, they seem to be stopped."""
        self._resumed.update((rank.key, rank.occasion) for rank in ranks)

    def without_resumed(self, ranks: Sequence[RankInfo]) -> list[RankInfo]:
        """Return the ranks but for those that are listed at a stop from which they were told to go on."""
        return [rank for rank in ranks if not (is_ready(rank) and self._resumed.get(rank.key) == rank.occasion)]
