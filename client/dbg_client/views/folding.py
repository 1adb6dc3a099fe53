"""Rows of a list that are equal but for rank, host and process, as one row each. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankInfo
from dbg_wire.targets.host_pattern import Span
from dbg_wire.targets.rank_set import format_ranks

MAX_HOSTS = 36
"""Columns for the hosts of one row; more are counted."""

MAX_NUMBERS = 24
"""Columns for the numbers of one row; of more ranks the row has hosts and count alone."""

_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})")


def fold_hosts(hosts: Sequence[str]) -> str:
    """Return hosts as one types them in a target: ``gpu[000-127]``; several patterns are divided by blanks."""
    numbers: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    pieces: list[str] = []
    for host in sorted(set(hosts)):
        match = _NUMBERED.fullmatch(host)
        if match is None:
            pieces.append(host)
            continue
        # Zeros in front have to stay: without them the number's own width says how it is written.
        width = len(match[2]) if match[2].startswith("0") or len(match[2]) == 1 else 0
        numbers[match[1], width].add(int(match[2]))
    for (prefix, width), found in _joined(numbers).items():
        pieces.append(prefix + _bracket(sorted(found), width))
    return " ".join(sorted(pieces))


def fold_address(group: Sequence[RankInfo], listed_at: Sequence[RankInfo]) -> str:
    """Return where the ranks of one row are; ``listed_at`` are all ranks that the list has on their hosts.

    The row's text is a target for its ranks where that is short, else for their hosts.
    """
    hosts = fold_hosts([rank.host for rank in group])
    are_long = len(hosts) > MAX_HOSTS
    if are_long:
        hosts = f"{len({rank.host for rank in group})} hosts"
    numbers = format_ranks(rank.rank for rank in group)
    have_numbers = all(rank.child is None and not rank.is_classic for rank in group)
    if len(group) == len(listed_at) or not have_numbers or len(numbers) > MAX_NUMBERS:
        return printable(f"{hosts}:*", 100)
    return printable(numbers if are_long else f"{hosts}:{numbers}", 100)


def _joined(numbers: dict[tuple[str, int], set[int]]) -> dict[tuple[str, int], set[int]]:
    """Put numbers without zeros in front to those with them where the widths agree: 09 and 10 are one series."""
    series = {name: set(found) for name, found in numbers.items() if name[1]}
    for (prefix, width), found in numbers.items():
        if width:
            continue
        for number in found:
            own = len(str(number))
            name = (prefix, own) if (prefix, own) in numbers else (prefix, 1 if (prefix, 1) in numbers else 0)
            series.setdefault(name, set()).add(number)
    return series


def _bracket(numbers: Sequence[int], width: int) -> str:
    shown = [str(number).zfill(width) for number in numbers]
    if len(shown) == 1:
        return shown[0]
    spans: list[Span] = []
    for number in numbers:
        if spans and spans[-1].last == number - 1:
            spans[-1] = Span(spans[-1].first, number, width)
        else:
            spans.append(Span(number, number, width))
    return f"[{','.join(_span(span) for span in spans)}]"


def _span(span: Span) -> str:
    first, last = str(span.first).zfill(span.width), str(span.last).zfill(span.width)
    return first if span.first == span.last else f"{first}-{last}"
