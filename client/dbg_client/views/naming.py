"""Names of sets of ranks in the form of targets, so that a user can type them, and texts on missing ranks. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from dbg_client.core.choose import ExitedRanks, ExpectedRanks
from dbg_client.views.ages import show_duration
from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import RankInfo, rank_order

MAX_REASON = 48
"""Maximum characters of the text that explains a set of ranks. A longer text is a list that explains nothing."""


class Naming:
    """Names of the ranks of one question, and of sets of them, unique among the ranks that were asked.

    A name is the rank's number. The job precedes the number if several jobs were asked, and the host precedes it if
    several ranks have the number. The process id follows it if several ranks of one host have the number.
    """

    def __init__(self, asked: Sequence[RankInfo]) -> None:
        self._asked = tuple(asked)
        self._jobs = {rank.job for rank in asked}
        self._numbers = Counter((rank.job, _number(rank)) for rank in asked)
        self._addresses = Counter((rank.job, rank.host, _number(rank)) for rank in asked)
        self._hosts = Counter(rank.host for rank in asked)
        self._local_ranks = Counter(rank.local_rank for rank in asked)
        self._axes = _common_axes([{one.axis: one.index for one in rank.coordinates} for rank in asked])
        self._cells = Counter(self._place(rank) for rank in asked)

    def name(self, rank: RankInfo) -> str:
        """Return the name of one rank."""
        number, host, job = _number(rank), "", f"{rank.job}/" if len(self._jobs) > 1 else ""
        if rank.is_classic or self._numbers[rank.job, number] > 1:
            host = f"{_typed_host(rank.host)}:"
        pid = f"@{rank.pid}" if self._addresses[rank.job, rank.host, number] > 1 else ""
        return f"{job}{host}{number}{pid}"

    def names(self, ranks: Sequence[RankInfo]) -> str:
        """Return a set as ``a-b[/step],…``, then children and ranks that need more than a number."""
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        others: defaultdict[str, list[str]] = defaultdict(list)
        for rank in sorted(ranks, key=rank_order):
            name = self.name(rank)
            prefix = name[: max(name.rfind("/"), name.rfind(":")) + 1]
            if name[len(prefix) :].isdecimal():
                numbers[prefix].append(rank.rank)
            else:
                others[prefix].append(name[len(prefix) :])
        # A bare number after a comma would belong to the host before it, so names without a host come first.
        prefixes = sorted({*numbers, *others}, key=lambda prefix: (prefix.count(":"), prefix))
        pieces = []
        for prefix in prefixes:
            if numbers[prefix]:
                pieces.append(prefix + format_ranks(numbers[prefix]))
            pieces += [prefix + other for other in others[prefix]]
        return ",".join(pieces)

    def explain(self, ranks: Sequence[RankInfo]) -> str:
        """Return the property that distinguishes a set: a host, a local rank or coordinates; else empty."""
        if len(ranks) == len(self._asked) or len(self._jobs) != 1:
            return ""
        reasons = [self._host(ranks), self._local_rank(ranks), self._coordinates(ranks)]
        return ", ".join(reason for reason in reasons if 0 < len(reason) <= MAX_REASON)

    def _host(self, ranks: Sequence[RankInfo]) -> str:
        host, *others = {rank.host for rank in ranks}
        return f"host {host}" if not others and len(ranks) == self._hosts[host] else ""

    def _local_rank(self, ranks: Sequence[RankInfo]) -> str:
        local, *others = {rank.local_rank for rank in ranks}
        if others or local is None or len(self._hosts) == 1 or len(ranks) != self._local_ranks[local]:
            return ""
        return f"local rank {local}"

    def _coordinates(self, ranks: Sequence[RankInfo]) -> str:
        places = [self._place(rank) for rank in ranks] if self._axes else []
        taken = [set(indices) for indices in zip(*places, strict=True)]
        # If a block has more cells than ranks, it contains other ranks or empty cells, so it does not describe the set.
        if not taken or math.prod(map(len, taken)) > len(ranks):
            return ""
        if sum(self._cells[cell] for cell in product(*taken)) != len(ranks):
            return ""
        return ", ".join(
            f"{axis} {format_ranks(indices)}"
            for (axis, everybody), indices in zip(self._axes.items(), taken, strict=True)
            if indices != everybody
        )

    def _place(self, rank: RankInfo) -> tuple[int, ...]:
        indices = {one.axis: one.index for one in rank.coordinates}
        return tuple(indices[axis] for axis in self._axes)


def name_few(ranks: Sequence[RankInfo], known: Sequence[RankInfo]) -> str:
    """Return the number of ranks, and the addresses of the first ones, with jobs if several jobs are known."""
    several_jobs = len({rank.job for rank in known}) > 1
    names = [f"{rank.job}/{rank.address}" if several_jobs else rank.address for rank in ranks[:4]]
    named = ", ".join(map(printable, names)) + (", …" if len(ranks) > 4 else "")
    return f"{len(ranks)} ranks ({named})" if len(ranks) > 1 else named


def _common_axes(places: Sequence[Mapping[str, int]]) -> dict[str, set[int]]:
    """Return the axes that all ranks have, each with all its indices."""
    first: Mapping[str, int] = places[0] if places else {}
    axes = [axis for axis in first if all(axis in place for place in places)]
    return {axis: {place[axis] for place in places} for axis in axes}


def clip(names: str, limit: int) -> str:
    """Return the names of a set, cut at a comma if they are longer than ``limit``."""
    if len(names) <= limit:
        return names
    kept = names[: limit - 2]
    return f"{kept.rpartition(',')[0] or kept},…"


def _number(rank: RankInfo) -> str:
    return rank.address.rpartition(":")[2]


def _typed_host(host: str) -> str:
    """Return a host as the user must type it, because a short number would be read as a slice."""
    return f"[{host}]" if len(host) <= 8 and host.isdecimal() else host


MAX_NAMES = 40
"""Maximum columns for the numbers of ranks that are missing for one reason. JSON lists them all."""


@dataclass(frozen=True, slots=True)
class MissingInAnswer:
    """Part of an answer's first line about ranks that were not asked because they are missing.

    ``exited`` is the number of exited ranks, ``how`` the text on how they ended, and ``connected`` the text on ranks
    that never connected. ``documents`` are for JSON.
    """

    exited: int = 0
    how: str = ""
    connected: str = ""
    documents: tuple[dict[str, object], ...] = ()


NOBODY_MISSING = MissingInAnswer()


def missing_in_answer(calls: Sequence[ExpectedRanks], now: float, *, several_jobs: bool) -> MissingInAnswer:
    """Return the texts of an answer about missing ranks; ``now`` is wall-clock seconds."""
    return MissingInAnswer(
        exited=sum(len(ended.numbers) for call in calls for ended in call.exited),
        how=", ".join(_how(ended, now, call.job if several_jobs else None) for call in calls for ended in call.exited),
        connected="; ".join(_connected(call, several_jobs=several_jobs) for call in calls if call.absent),
        documents=tuple(missing_documents(calls)),
    )


def missing_documents(calls: Sequence[ExpectedRanks], *, with_exited: bool = True) -> list[dict[str, object]]:
    """Return missing ranks as JSON fields."""
    documents = []
    for call in calls:
        for ended in call.exited if with_exited else ():
            documents.append(_document(call.job, ended.numbers, "exited", ended.text, ended.since))
        if call.absent:
            documents.append(_document(call.job, call.absent, "absent", "never came", None))
    return documents


def _document(job: str, numbers: Sequence[int], state: str, text: str, since: float | None) -> dict[str, object]:
    return {"job": job, "ranks": format_ranks(numbers), "state": state, "text": text, "since": since}


def absent_rows(calls: Sequence[ExpectedRanks], *, several_jobs: bool) -> str:
    """Return a line for each run with ranks that never connected, to be shown below a list."""
    return "".join(
        f"{_names(call.absent, call.job if several_jobs else None)} never connected\n" for call in calls if call.absent
    )


def _how(ended: ExitedRanks, now: float, job: str | None) -> str:
    many = len(ended.numbers) > 1
    verb = ("were " if many else "was ") if ended.text.startswith("killed") else ""
    ago = f"{'the first ' if many else ''}{show_duration(now - ended.since)} ago"
    comma = "," if many or ended.text[-1:].isdigit() or " from " in ended.text else ""
    return f"rank{'s' if many else ''} {_names(ended.numbers, job)} {verb}{ended.text}{comma} {ago}"


def _connected(call: ExpectedRanks, *, several_jobs: bool) -> str:
    names = _names(call.absent, None)
    whose = f" of {printable(call.job)}" if several_jobs else ""
    if call.world is None or call.connected + len(call.absent) != call.world:
        # Ranks outside the target may be absent too. Then the counts of connected and of named ranks don't add up.
        return f"rank{'s' if len(call.absent) > 1 else ''} {names}{whose} never connected"
    return f"{call.connected} of {call.world} ranks{whose} have connected: {names} never did"


def _names(numbers: Sequence[int], job: str | None) -> str:
    names = clip(format_ranks(numbers), MAX_NAMES)
    return f"{printable(job)}/{names}" if job is not None else names
