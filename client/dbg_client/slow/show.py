"""Verdicts on a slow job as text and as JSON: sentences, a table of the groups, and a chart of arrivals. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.slow.explain import RunFindings
from dbg_client.slow.lateness import GroupLateness, Lateness, SlowVerdict, duration
from dbg_client.views.groups import paint
from dbg_client.views.naming import clip
from dbg_client.views.table import clip as cut
from dbg_client.views.table import padded, table
from dbg_client.why.process_groups import world_size
from dbg_client.why.show import document_of, shown
from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks

MAX_ROWS = 40
"""Rows of the table; the groups that cost most stand first, and JSON has them all."""

MAX_BARS = 12
"""Bars of the chart: ranks that come about as late as others share one."""

NARROWEST, WIDEST = 40, 120
"""Columns within which a chart is drawn."""

ALIKE = 0.1
"""The part of the longest bar by which ranks on one bar differ at most."""

MAX_NAMES = 28
"""Columns for the ranks of one cell or bar."""

MAX_JOB, MAX_GROUP = 16, 24
"""Columns of the names of jobs and groups: the figures behind them are to be seen at 80 columns."""

HEADERS = ("JOB", "GROUP", "LAST", "TIMES", "BY", "LOST", "STEP", "RANKS")

_CODES = {Lateness.LATE: "1;31", Lateness.UNEVEN: "33", Lateness.EVEN: "32", Lateness.UNKNOWN: "35"}

_BAR = "="
"""What bars are made of: blocks take one column in some terminals and two in others."""


def show_findings(found: Sequence[RunFindings], *, color: bool, columns: int | None = None) -> str:
    """Return the sentences and the table, and on a terminal of so many ``columns`` a chart; None is no terminal."""
    several = len({one.run.run for one in found}) > 1
    verdicts = (verdict for one in found for verdict in one.verdicts)
    blocks = ["".join(shown(one, _CODES[one.kind] if color else None, columns) for one in verdicts)]
    if any(one.groups for one in found):
        blocks.append(_table(found, several=several, columns=columns))
    if columns is not None:
        blocks += [_chart(one, columns, several=several, color=color) for one in found if one.groups or one.waiting]
    return "\n".join(block for block in blocks if block) or "no rank with an agent could tell anything\n"


def _table(found: Sequence[RunFindings], *, several: bool, columns: int | None) -> str:
    rows = [_row(one, group, several=several) for one in found for group in one.groups]
    lines = table(HEADERS, rows[:MAX_ROWS])
    if len(rows) > MAX_ROWS:
        lines.append(f"and {len(rows) - MAX_ROWS} more groups, which --json has")
    return "".join(f"{line if columns is None else cut(line, columns)}\n" for line in lines)


def _row(one: RunFindings, group: GroupLateness, *, several: bool) -> tuple[str, ...]:
    members = group.of.group.numbers
    is_late = group.kind is Lateness.LATE
    return (
        cut(printable(one.run.run[0]), MAX_JOB) if several else "",
        cut(printable(group.of.group.label), MAX_GROUP),
        _last(group),
        f"{f'{group.times} of ' if is_late else ''}{group.count} {printable(group.call, MAX_GROUP)}",
        duration(group.by) if is_late else "",
        f"{max(0.0, group.lost):.1%}" if group.kind is not Lateness.UNKNOWN else "",
        duration(group.step.seconds) if group.step is not None else "",
        clip(format_ranks(members), MAX_NAMES),
    )


def _last(group: GroupLateness) -> str:
    if group.kind is Lateness.LATE:
        return clip(format_ranks(group.ranks), MAX_NAMES)
    return {Lateness.UNEVEN: "in turns", Lateness.EVEN: "nobody"}.get(group.kind, "unknown")


def _chart(one: RunFindings, columns: int, *, several: bool, color: bool) -> str:
    """Draw when the ranks of the group come that costs most; without a recorder, how long they wait."""
    job = f"{cut(printable(one.run.run[0]), MAX_JOB)}: " if several else ""
    if one.groups:
        group = one.groups[0]
        if not group.behind:
            return ""
        name = printable(group.of.group.label or "the job", 60)
        count = group.times if group.kind is Lateness.LATE else group.count
        title = f"{job}arrivals in {name} after the first rank, median of {count} {printable(group.call, MAX_GROUP)}"
        return _bars(title, _Bars(group.behind, duration, group.ranks), columns, color=color)
    waiting = one.waiting[0]
    title = f"{job}waits in {printable(waiting.call, 40)} {printable(waiting.label, 60)}".rstrip()
    bars = _Bars(waiting.waits, "{:.0%}".format, waiting.ranks)
    return _bars(f"{title}, of {waiting.looks} looks", bars, columns, color=color)


@dataclass(frozen=True, slots=True)
class _Bars:
    """A value of each rank, how a value is written, and the ranks whose bars stand out."""

    values: Mapping[int, float]
    written: Callable[[float], str]
    late: Collection[int]

    def merged(self) -> list[tuple[tuple[int, ...], float]]:
        """Return the ranks of each bar and their median, the lowest rank first; late ranks share no bar with others."""
        longest = max(self.values.values())
        width = ALIKE * longest
        while True:
            bars: list[list[int]] = []
            for number in sorted(self.values, key=lambda number: (number in self.late, self.values[number], number)):
                first = bars[-1][0] if bars else None
                is_alike = first is not None and self.values[number] - self.values[first] <= width
                if is_alike and (number in self.late) == (first in self.late):
                    bars[-1].append(number)
                else:
                    bars.append([number])
            if len(bars) <= MAX_BARS:
                break
            width *= 2
        merged = [(tuple(sorted(bar)), statistics.median(self.values[number] for number in bar)) for bar in bars]
        return sorted(merged)


def _bars(title: str, bars: _Bars, columns: int, *, color: bool) -> str:
    merged = bars.merged()
    labels = padded([[clip(format_ranks(ranks), MAX_NAMES), bars.written(value)] for ranks, value in merged])
    longest = max(value for _, value in merged) or 1.0
    room = max(1, min(max(columns, NARROWEST), WIDEST) - 1 - max(len(f"  {name}  {value}  ") for name, value in labels))
    lines = [title]
    for (name, value), (ranks, amount) in zip(labels, merged, strict=True):
        line = f"  {name}  {value}  {_BAR * round(room * amount / longest)}".rstrip()
        lines.append(paint(line, _CODES[Lateness.LATE] if color and ranks[0] in bars.late else None))
    return "".join(f"{line}\n" for line in lines)


def slow_document(found: Sequence[RunFindings], seconds: float) -> dict[str, object]:
    """Return what becomes the JSON document; ``seconds`` is how long ranks were asked to look."""
    return {
        "schema": 1,
        "asked": sum(max(world_size(one.run.roster) or 0, len(one.run.roster)) for one in found),
        "answered": sum(len(one.run.told) for one in found),
        "seconds": seconds,
        "verdicts": [_verdict_document(verdict) for one in found for verdict in one.verdicts],
        "groups": [_group_document(one, group) for one in found for group in one.groups],
    }


def _verdict_document(verdict: SlowVerdict) -> dict[str, object]:
    return {
        "kind": verdict.kind.value,
        **document_of(verdict),
        "times": verdict.times,
        "count": verdict.count,
        "by": _rounded(verdict.by),
        "lost": _rounded(verdict.lost),
        "step": _rounded(verdict.step),
        "step_without": _rounded(verdict.step_without),
    }


def _group_document(one: RunFindings, group: GroupLateness) -> dict[str, object]:
    bars = _Bars(group.behind, duration, group.ranks).merged() if group.behind else []
    return {
        "job": one.run.run[0],
        "group": group.of.group.label,
        "members": format_ranks(group.of.group.numbers),
        "kind": group.kind.value,
        "collective": group.call,
        "count": group.count,
        "ranks": format_ranks(group.ranks) or None,
        "times": group.times,
        "by": _rounded(group.by),
        "lost": _rounded(group.lost),
        "step": _rounded(group.step.seconds) if group.step is not None else None,
        "clocks": _rounded(group.of.looseness) if math.isfinite(group.of.looseness) else None,
        "arrivals": [{"ranks": format_ranks(ranks), "behind": _rounded(behind)} for ranks, behind in bars],
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 6)
