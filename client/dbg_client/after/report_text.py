"""What is known of ranks, as one text for a colleague or a bug report. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dbg_client.core.choose import never_came
from dbg_client.views.ages import show_duration
from dbg_client.views.list import MAX_ROWS, show_table
from dbg_client.views.naming import Naming
from dbg_wire import PROTOCOL_MAJOR, PROTOCOL_MINOR, RELEASE
from dbg_wire.errors import printable
from dbg_wire.messages import Welcome
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import DIED, RankInfo, RankState, describe_exit, rank_order

OUT = "[taken out]"

_NAMED = re.compile(
    r"(?i)\b([\w.-]*(?:token|secret|passw(?:or)?d|passwd|api[_-]?key|access[_-]?key|credentials?|authorization|bearer)"
    r"[\w.-]*['\"]?\s*(?:=|:)\s*|bearer\s+)(?:(?:bearer|basic)\s+)?(['\"]?)[^\s'\",;)}\]]{3,}"
)
"""A name that looks secret, and what stands behind it."""

_USER = re.compile(r"(\w+://)[^\s/@]+@")
"""User and password in a URL."""

_KNOWN = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|hf_\w{16,}|glpat-[\w-]{16,}|xox[abpr]-[\w-]{10,}"
    r"|AKIA[0-9A-Z]{12,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+)"
)
"""Keys and tokens whose beginning tells what they are."""

_RANDOM = re.compile(r"(?<![\w/.-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])(?:[\w-]{43}|(?=[\w-]*[0-9])[\w-]{32,})(?![\w/.-])")
"""Letters and digits as nobody writes them; paths and names of files are left alone. A broker's token has 43 of them,
and one in a thousand has no digit."""

MAX_SECTION = 96 * 1024
"""Characters of one section: the stacks of a thousand ranks that all differ would be longer than people read."""


def without_secrets(text: str) -> str:
    """Return the text with whatever looks like a password, a token or a key replaced by :data:`OUT`."""
    text = _USER.sub(rf"\1{OUT}@", text)
    text = _NAMED.sub(rf"\1\2{OUT}", text)
    return _RANDOM.sub(OUT, _KNOWN.sub(OUT, text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Say which terminal reports, in words."""

    python: str
    system: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was learned: ``stacks`` is the tree of them, or why there is none; ``target`` what the user typed, if so.

    ``verdict`` is why the jobs do not go on, as text. ``collectives`` are the last one of each process group,
    ``output`` the last lines that the job has printed, if they are at hand.
    """

    ranks: Sequence[RankInfo]
    welcome: Welcome | None
    url: str
    stacks: str
    verdict: str
    target: str | None
    now: float
    moment: str
    collectives: Sequence[str] = ()
    output: Sequence[str] = ()
    known: Sequence[RankInfo] = ()
    """All ranks that the broker knows, of which ``ranks`` may be a part."""


def show_report(asked: Asked, terminal: Terminal) -> str:
    """Return the report, without secrets; ``asked.ranks`` includes those that have exited."""
    ranks = sorted(asked.ranks, key=rank_order)
    sections = [
        ("Versions", _versions(asked, terminal, ranks)),
        ("Broker", _broker(asked)),
        *((f"Job {printable(job)}", _job(members, asked)) for job, members in _jobs(ranks)),
        ("Ranks", _listed(ranks, asked.now)),
        ("Why it hangs", asked.verdict.rstrip("\n").split("\n") if ranks else ["no rank to ask"]),
        *([("Collectives", asked.collectives)] if asked.collectives else []),
        ("Stacks", asked.stacks.rstrip("\n").split("\n") if ranks else ["no rank to ask"]),
        ("What differs between ranks", _differences(ranks)),
        ("Time limits and other details of stops", _details(ranks)),
        *([("The last lines that it printed", asked.output)] if asked.output else []),
    ]
    about = f" about {printable(asked.target)}" if asked.target is not None else ""
    text = f"dbg-attach report{about}, {asked.moment}\n"
    for title, lines in sections:
        text += f"\n{title}\n" + "".join(f"  {line}".rstrip() + "\n" for line in _bounded(lines))
    return without_secrets(text)


def _bounded(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a section, cut behind MAX_SECTION characters."""
    left = MAX_SECTION
    for number, line in enumerate(lines):
        left -= len(line) + 3
        if left < 0:
            return [*lines[:number], f"... {len(lines) - number} more lines are left out"]
    return lines


def _versions(asked: Asked, terminal: Terminal, ranks: Sequence[RankInfo]) -> list[str]:
    ours = f"protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}"
    lines = [f"terminal  dbg-attach {RELEASE}, {ours}, Python {terminal.python}, {terminal.system}"]
    if asked.welcome is not None:
        lines.append(f"broker    {printable(asked.welcome.release)}, protocol {PROTOCOL_MAJOR}.{asked.welcome.minor}")
    lines += [f"ranks     {said}: {names}" for said, names in _grouped(ranks, _agent)]
    return lines


def _broker(asked: Asked) -> list[str]:
    url = printable(asked.url.partition("#")[0])
    if asked.welcome is None:
        return [url]
    where = f"pid {asked.welcome.pid} on {printable(asked.welcome.host)}"
    return [f"{url}, {where}, up for {show_duration(asked.welcome.uptime)}"]


def _jobs(ranks: Sequence[RankInfo]) -> list[tuple[str, list[RankInfo]]]:
    jobs: dict[tuple[str, str], list[RankInfo]] = {}
    for rank in ranks:
        jobs.setdefault((rank.job, rank.run), []).append(rank)
    return [(f"{job}, run {run}", members) for (job, run), members in jobs.items()]


def _job(members: Sequence[RankInfo], asked: Asked) -> list[str]:
    size = max((rank.world_size or 0 for rank in members), default=0)
    hosts = len({rank.host for rank in members})
    known = f"{len(members)} ranks are known" if len(members) != 1 else "1 rank is known"
    of = f", the world size is {size}" if size else ""
    states = ", ".join(f"{count} {state}" for state, count in _count(members))
    lines = [f"{known}{of}; {hosts} host{'s' if hosts > 1 else ''}; {states}"]
    run = [rank for rank in asked.known if (rank.job, rank.run) == (members[0].job, members[0].run)]
    if missing := never_came(run or members):
        lines.append(f"never connected: {format_ranks(missing)}")
    gone = [rank for rank in members if _failed(rank)]
    lines += [_ended(rank, asked.now) for rank in gone[:MAX_ROWS]]
    if len(gone) > MAX_ROWS:
        lines.append(f"... {len(gone) - MAX_ROWS} more have ended with an error")
    return lines


def _failed(rank: RankInfo) -> bool:
    return rank.state is RankState.EXITED and (rank.reason == DIED or rank.exit not in (0, None))


def _ended(rank: RankInfo, now: float) -> str:
    how = describe_exit(rank)
    verb = "" if how == DIED else "was " if how.startswith("killed") else "has "
    detail = f" ({printable(rank.detail)})" if rank.detail and rank.detail not in how else ""
    return f"{printable(rank.address)} {verb}{how}{detail}, {show_duration(now - rank.since)} ago"


def _count(members: Sequence[RankInfo]) -> list[tuple[str, int]]:
    counts = {state: sum(rank.state is state for rank in members) for state in RankState}
    return [(state.value, count) for state, count in counts.items() if count]


def _listed(ranks: Sequence[RankInfo], now: float) -> list[str]:
    if not ranks:
        return ["no rank has connected"]
    return show_table(ranks, now, color=False, fold=True).splitlines()


def _differences(ranks: Sequence[RankInfo]) -> list[str]:
    lines: list[str] = []
    for what, of in _COMPARED:
        groups = _grouped(ranks, of)
        if len(groups) > 1:
            lines += [f"{what} {said}: {names}" for said, names in groups]
    return lines or ["script, directory, Python, agent and world size are the same"]


def _details(ranks: Sequence[RankInfo]) -> list[str]:
    stopped = [rank for rank in ranks if rank.state is not RankState.EXITED and rank.detail]
    return [f"{said}: {names}" for said, names in _grouped(stopped, _detail)] or ["none is known"]


def _grouped(ranks: Sequence[RankInfo], of: Callable[[RankInfo], str]) -> list[tuple[str, str]]:
    """Return what the ranks say, each with the ranks that say it, what most say first."""
    groups: dict[str, list[RankInfo]] = {}
    for rank in ranks:
        groups.setdefault(of(rank), []).append(rank)
    naming = Naming(ranks)
    biggest = sorted(groups.items(), key=lambda item: -len(item[1]))
    if len(groups) == 1:
        return [(said, f"all {len(ranks)}" if len(ranks) > 1 else naming.names(ranks)) for said in groups]
    return [(said, naming.names(members)) for said, members in biggest]


def _agent(rank: RankInfo) -> str:
    if rank.is_classic:
        return "a stock debugger without an agent"
    return f"agent {printable(rank.release)}, Python {printable(rank.python)}"


def _detail(rank: RankInfo) -> str:
    return printable(rank.detail, 500)


_COMPARED: Sequence[tuple[str, Callable[[RankInfo], str]]] = (
    ("script", lambda rank: printable(rank.script)),
    ("directory", lambda rank: printable(rank.directory)),
    ("Python", lambda rank: printable(rank.python) or "not told"),
    ("agent", lambda rank: printable(rank.release) or "not told"),
    ("world size", lambda rank: str(rank.world_size) if rank.world_size is not None else "not told"),
)
