"""The text of a report, made of its case, for a colleague or a bug report. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from dbg_client.after.case_file import CaseFile, lines_of
from dbg_client.core.choose import Run, never_came
from dbg_client.views.ages import show_duration
from dbg_client.views.list import MAX_ROWS, show_table
from dbg_client.views.naming import Naming
from dbg_client.views.stacks import group_stacks
from dbg_client.views.tree import show_tree
from dbg_client.why.collective_matching import match_collectives
from dbg_client.why.collectives import collective_notes, show_collectives
from dbg_client.why.explain import Explanation
from dbg_client.why.show import show_verdicts
from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import DIED, RankInfo, RankState, describe_exit, rank_order

MAX_SECTION = 96 * 1024
"""Characters of one section: the stacks of a thousand ranks that all differ would be longer than people read."""


def report_text(saved: CaseFile, found: Explanation | None) -> str:
    """Return the text of a report, with its case at the end; ``found`` are the verdicts, None without a look."""
    ranks = sorted(saved.ranks, key=rank_order)
    jobs: defaultdict[Run, list[RankInfo]] = defaultdict(list)
    for rank in ranks:
        jobs[rank.job, rank.run].append(rank)
    sections = [
        ("Versions", [*saved.versions, *_agents(ranks)]),
        *((f"Job {printable(f'{job}, run {run}')}", _job(members, saved.now)) for (job, run), members in jobs.items()),
        ("Ranks", show_table(ranks, saved.now, color=False, fold=True).splitlines() if ranks else ["none"]),
        ("Why it hangs", _lines(show_verdicts(found.verdicts, color=False)) if found is not None else [saved.problem]),
        *_of_looks(saved),
        ("The last lines that it printed", saved.output),
    ]
    text = f"{saved.about}\n"
    for title, lines in sections:
        if lines:
            text += f"\n{title}\n" + "".join(f"  {line}".rstrip() + "\n" for line in _bounded(lines))
    title, *packed = *lines_of(saved), ""
    return f"{text}\n{title}\n" + "".join(f"  {line}\n" for line in packed if line) if title else text


def _of_looks(saved: CaseFile) -> list[tuple[str, Sequence[str]]]:
    """Return the sections on collectives and stacks at the last look."""
    if not saved.looks:
        return []
    matched = match_collectives(saved.case.looks[-1].everybody)
    said = list(zip(saved.ranks, saved.looks[-1].answers, strict=True))
    stacks, others = group_stacks(said, saved.ranks, collective_notes(matched))
    tree = show_tree(stacks, others, Naming(saved.ranks), color=False)
    has_groups = any(one.groups for one in matched)
    table = _lines(show_collectives(matched, color=False)) if has_groups else []
    return [("Collectives", table), ("Stacks", _lines(tree))]


def _lines(text: str) -> list[str]:
    return text.rstrip("\n").split("\n")


def _bounded(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a section, cut behind MAX_SECTION characters."""
    left = MAX_SECTION
    for number, line in enumerate(lines):
        left -= len(line) + 3
        if left < 0:
            return [*lines[:number], f"... {len(lines) - number} more lines are left out"]
    return lines


def _agents(ranks: Sequence[RankInfo]) -> list[str]:
    """Return the releases of agents and Pythons, with their ranks if there are several."""
    groups: defaultdict[str, list[RankInfo]] = defaultdict(list)
    for rank in ranks:
        agent = "a stock debugger without an agent"
        told = f"agent {printable(rank.release)}, Python {printable(rank.python)}"
        groups[agent if rank.is_classic else told].append(rank)
    naming = Naming(ranks)
    return [
        f"ranks     {told}: {naming.names(some) if len(groups) > 1 else f'all {len(ranks)}'}"
        for told, some in sorted(groups.items(), key=lambda group: -len(group[1]))
    ]


def _job(members: Sequence[RankInfo], now: float) -> list[str]:
    size = max((rank.world_size or 0 for rank in members), default=0)
    hosts = len({rank.host for rank in members})
    known = f"{len(members)} ranks are known" if len(members) != 1 else "1 rank is known"
    counts = Counter(rank.state for rank in members)
    states = ", ".join(f"{counts[state]} {state.value}" for state in RankState if counts[state])
    of = f", the world size is {size}" if size else ""
    lines = [f"{known}{of}; {hosts} host{'s' if hosts > 1 else ''}; {states}"]
    if missing := never_came(members):
        lines.append(f"never connected: {format_ranks(missing)}")
    gone = [rank for rank in members if rank.state is RankState.EXITED and (rank.reason == DIED or rank.exit)]
    for one in gone:
        how = describe_exit(one)
        verb = "" if how == DIED else "was " if how.startswith("killed") else "has "
        lines.append(f"{printable(one.address)} {verb}{how}, {show_duration(now - one.since)} ago")
    return [*lines[:MAX_ROWS], f"... {len(lines) - MAX_ROWS} more"] if len(lines) > MAX_ROWS else lines
