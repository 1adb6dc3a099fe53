"""Targets: the grammar by which a person names ranks, and the selection of ranks. Pure.

::

    target = term { "," term }
    term   = [ "!" ] [ job "/" ] [ "!" ] what            "!" excludes ranks
    what   = "all" | "stopped" | "held" | "crashed" | "running" | "unresponsive" | "lost"
           | [ [ host ] ":" ] numbers                   5, 0-3, 0-1023/8 (every eighth), child 5.1, process 5@4711
           | [ host ] ":*"
           | [ [ host ] ":" ] "?" number                a classic session, which has no rank
           | "@" name                                   a group of an earlier answer: @2, @err, @?
    job    = name, in which "*" is anything: train*/all, */5
    host   = name or IPv4 address, in which "*" is anything and "[01-04,07]" these numbers, zeros kept

Bare numbers after a comma belong to the numbers before it: ``gpu013:0-3,5`` is all on gpu013, ``all,!0-3,5`` excludes
five ranks; ``:5`` starts a new term. A target that only excludes ranks selects all other ranks; ``job/!5`` selects all
other ranks of that job.

A term selects ranks in these steps. After any of them the selection can be empty:

1. Ranks of its job, host and process id.
2. Numbers are global ranks. If the term names a host and no process id, and no global rank on that host matches, the
   numbers are local ranks. They are also local ranks if one of these is live, while all matching global ranks are lost
   or exited. The selection's note names these numbers.
3. If several ranks have the same full address, the live ranks hide the others. Without live ranks the newest rank
   hides the older ones.
4. Exited ranks are dropped if the selection also has ranks that have not exited. While any job is live, the exited
   ranks of a job without live ranks are always dropped, unless the term names their job or process.

A group of an earlier answer names processes of any job: only the first step applies to it.

Then the excluded ranks are removed from the ranks of all terms. Terms without a job select ranks of one job: the
only job with live ranks, or else the job that changed last.
"""

from __future__ import annotations

import enum
import fnmatch
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from dbg_wire.errors import AmbiguousTarget, BadTarget, NoSuchRank, printable
from dbg_wire.rank_set import RANK_PIECE, format_ranks, parse_ranks
from dbg_wire.records.ranks import CRASH, LIVE_STATES, RankInfo, RankState, rank_order

JOB_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""Names of jobs that can be written in a target."""

_JOB_PATTERN = re.compile(r"[A-Za-z0-9._*-]+")

MAX_TERMS = 1000
"""Maximum number of terms, because each costs a pass over all ranks. A list of numbers is one term at any length."""

MAX_HOST = 255
"""Maximum length of a host or its pattern, in characters, as in DNS; limits the work of matching."""

MAX_CANDIDATES = 64
"""Maximum number of candidates for an ambiguous target; if more ranks match, one rank of each job is named."""

MAX_NOTED_HOSTS = 4
"""Maximum number of hosts in a note, so that it stays one line."""

_NUMBERS = rf"(?:{RANK_PIECE}|[0-9]+\.[0-9]+)"
_BARE_NUMBERS = re.compile(_NUMBERS)
_ENDS_IN_NUMBERS = re.compile(rf"(?:^|[!/:]){_NUMBERS}\Z")
_LIKE_NUMBERS = re.compile(r"[0-9/-]+|[0-9]+\.[0-9]+")
_STEP = re.compile(r"[0-9]+-[0-9]+/[0-9]+")
_CHILD = re.compile(r"([0-9]{1,8})\.([0-9]{1,8})")
_CLASSIC = re.compile(r"\?[0-9]{1,8}")
_GROUP = re.compile(r"@(?:[a-z]{1,8}|\?)?[0-9]{0,8}")
_PID = re.compile(r"[0-9]{1,10}")
_UP_TO_COMMA = re.compile(r"(?:\[[^\[\]]*\]|[^,\[]|\[)*")


class Word(str, enum.Enum):
    """Words that select ranks."""

    ALL = "all"
    STOPPED = "stopped"
    HELD = "held"
    CRASHED = "crashed"
    RUNNING = "running"
    UNRESPONSIVE = "unresponsive"
    LOST = "lost"

    def fits(self, rank: RankInfo) -> bool:
        """Return True if the rank is in the state of the word; a crashed rank is stopped, too."""
        if self is Word.ALL:
            return True
        if self is Word.CRASHED:
            return rank.reason == CRASH and rank.state in LIVE_STATES
        return rank.state is RankState(self.value)


_WORDS = {word.value: word for word in Word}


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of ranks, and numbers of children as (rank, child)."""

    ranks: frozenset[int]
    children: frozenset[tuple[int, int]] = frozenset()

    def __len__(self) -> int:
        return len(self.ranks) + len(self.children)

    def fits(self, number: int | None, child: int | None) -> bool:
        """Return True if a rank of this number is selected; a rank does not include its children."""
        return number is not None and (number in self.ranks if child is None else (number, child) in self.children)


@dataclass(frozen=True, slots=True)
class Classic:
    """The mark ``?1`` of a classic session, which is a stock debugger without an agent."""

    mark: str


@dataclass(frozen=True, slots=True)
class Group:
    """Name of a group of an earlier answer, ``@2``, and the keys of its ranks, empty until they are looked up."""

    name: str
    keys: frozenset[str] = frozenset()


What = Word | Numbers | Classic | Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One term; ``job`` is a name, a pattern with ``*`` for any text, or None if the user named none."""

    what: What
    job: str | None = None
    host: HostPattern | None = None
    pid: int | None = None

    @property
    def names_one(self) -> bool:
        """Whether the term's form names exactly one rank, as in ``gpu013:5``."""
        in_one_job = self.job is None or "*" not in self.job
        return _is_one(self.what) and in_one_job and (self.host is None or self.host.exact is not None)

    def fits_job(self, job: str) -> bool:
        """Return True if the term can match ranks of this job."""
        return self.job is None or fnmatch.fnmatchcase(job, self.job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target: the ranks that match a term of ``include`` and no term of ``exclude``; ``text`` is as typed."""

    text: str
    include: tuple[Term, ...]
    exclude: tuple[Term, ...] = ()

    @property
    def single(self) -> bool:
        """Whether the target's form names exactly one rank, so that a terminal can attach to it."""
        return not self.exclude and len(self.include) == 1 and self.include[0].names_one


# ------------------------------------------------------------------------------------------------- reading a target


def parse_target(text: str) -> Target:
    """Parse a target; raise :class:`~dbg_wire.errors.BadTarget` with the piece that can't be read."""
    if "://" in text:
        raise BadTarget(f"'{printable(text)}' is a URL, not a rank", "write host:rank")
    groups = _group(text)
    if len(groups) > MAX_TERMS:
        raise BadTarget(f"the target has {len(groups)} terms", f"write ranges, and at most {MAX_TERMS} terms")
    include: list[Term] = []
    exclude: list[Term] = []
    for group in groups:
        leaves_out, term = _parse_term(group)
        (exclude if leaves_out else include).append(term)
    if not include:
        include = [Term(what=Word.ALL, job=job) for job in dict.fromkeys(term.job for term in exclude)]
    return Target(text=text, include=tuple(include), exclude=tuple(exclude))


def in_job(text: str, job: str) -> str:
    """Return a valid target with its terms limited to this job, except terms that name a job or a group."""
    return ",".join(",".join([_in_job(first, job), *rest]) for first, *rest in _group(text))


def _in_job(piece: str, job: str) -> str:
    body = piece.removeprefix("!")
    if _split_job(body)[0] is not None or (len(body) > 1 and _GROUP.fullmatch(body)):
        return piece
    return f"{piece[: len(piece) - len(body)]}{job}/{body}"


def _group(text: str) -> list[list[str]]:
    """Split a target at its commas; bare numbers stay with the numbers before them."""
    groups: list[list[str]] = []
    for piece in _split(text):
        if not piece:
            raise BadTarget(f"target '{printable(text)}' has an empty piece", "write targets as gpu013:5 or all,!0-3")
        if groups and _BARE_NUMBERS.fullmatch(piece) and _ENDS_IN_NUMBERS.search(groups[-1][-1]):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets; an unclosed bracket splits, too, and is rejected as a host."""
    pieces: list[str] = []
    at = 0
    while at <= len(text):
        match = _UP_TO_COMMA.match(text, at)
        end = match.end() if match else at
        pieces.append(text[at:end].strip())
        at = end + 1
    return pieces


def _parse_term(group: list[str]) -> tuple[bool, Term]:
    """Return whether the term excludes ranks (``!``), and the parsed term."""
    leaves_out = group[0].startswith("!")
    job, rest = _split_job(group[0].removeprefix("!"))
    if not leaves_out and rest.startswith("!"):
        leaves_out, rest = True, rest[1:]
    if len(rest) > 1 and _GROUP.fullmatch(rest):
        return leaves_out, Term(what=Group(rest), job=job)
    body, at, pid = rest.partition("@")
    if not body:
        raise BadTarget(f"'{printable(group[0])}' is not a target", "write targets as gpu013:5, job/all or !5")
    host, what = _parse_what(body, group[1:])
    if at and not (_PID.fullmatch(pid) and _is_one(what)):
        raise BadTarget(
            f"'@{printable(pid)}' in '{printable(group[0])}' can't be read", "write one rank as gpu013:5@4711"
        )
    return leaves_out, Term(what=what, job=job, host=host, pid=int(pid) if at else None)


def _split_job(text: str) -> tuple[str | None, str]:
    job, slash, rest = text.partition("/")
    if not slash or ":" in job or _STEP.fullmatch(text):
        return None, text
    if not _JOB_PATTERN.fullmatch(job):
        raise BadTarget(f"'{printable(job)}' is not a job name", "write job/gpu013:5 for one job, */all for all")
    return job, rest


def _is_one(what: What) -> bool:
    return isinstance(what, Classic) or (isinstance(what, Numbers) and len(what) == 1)


def _parse_what(body: str, more: list[str]) -> tuple[HostPattern | None, What]:
    host, colon, rest = body.rpartition(":")
    pattern = parse_host(host) if host else None
    if not rest:
        raise BadTarget(f"'{printable(body)}' is not a target", f"write {printable(host)}:* for all ranks")
    if _CLASSIC.fullmatch(rest):
        return pattern, Classic(rest)
    if colon:
        return pattern, Word.ALL if rest == "*" else _parse_numbers([rest, *more])
    if rest in _WORDS or _LIKE_NUMBERS.fullmatch(rest):
        return None, _WORDS.get(rest) or _parse_numbers([rest, *more])
    all_of_it = f"{rest}:* for all ranks of {'that host' if parse_host(rest).exact else 'these hosts'}"
    raise BadTarget(f"'{printable(rest)}' is not a target", f"write {'all' if rest == '*' else all_of_it}")


def _parse_numbers(pieces: list[str]) -> Numbers:
    children = [match for match in map(_CHILD.fullmatch, pieces) if match]
    ranks = [piece for piece in pieces if not _CHILD.fullmatch(piece)]
    return Numbers(
        parse_ranks(",".join(ranks)) if ranks else frozenset(),
        frozenset((int(match.group(1)), int(match.group(2))) for match in children),
    )


# -------------------------------------------------------------------------------------------------------------- hosts

_HOST_PIECE = re.compile(r"[A-Za-z0-9._-]+|\*|\[[^\[\]]*\]")
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class Span:
    """The numbers from ``first`` to ``last``, written with at least ``width`` digits."""

    first: int
    last: int
    width: int

    def fits(self, digits: str) -> bool:
        """Return True if ``digits`` is one of the numbers, with exactly the leading zeros that the width needs."""
        if not (digits.isascii() and digits.isdecimal()):
            return False
        number = int(digits)
        return self.first <= number <= self.last and digits == str(number).zfill(self.width)


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host as typed; a piece is ``*``, other literal text, or the numbers of a bracket."""

    text: str
    pieces: tuple[str | tuple[Span, ...], ...]

    @property
    def exact(self) -> str | None:
        """The host's name, or None for a pattern that several hosts can match."""
        return self.text if all(isinstance(piece, str) and piece != "*" for piece in self.pieces) else None

    def fits(self, host: str) -> bool:
        """Return True if the pattern matches the whole name ``host``, with the same case.

        All ways to split the name into the pattern's pieces are tried at the same time, so no pattern is slow to match.
        """
        exact = self.exact
        if exact is not None or len(host) > MAX_HOST:
            return host == exact
        ends = {0}
        for piece in self.pieces:
            ends = {end for start in ends for end in _ends(piece, host, start)}
        return len(host) in ends


def parse_host(text: str) -> HostPattern:
    """Parse a host or host pattern; raise :class:`~dbg_wire.errors.BadTarget` with the piece that can't be read."""
    if len(text) > MAX_HOST:
        raise BadTarget(f"host '{printable(text, 40)}' is longer than {MAX_HOST} characters", "write a shorter pattern")
    pieces: list[str | tuple[Span, ...]] = []
    at = 0
    while at < len(text):
        match = _HOST_PIECE.match(text, at)
        if match is None:
            wrong = "an unclosed bracket" if text[at] == "[" else f"'{printable(text[at])}'"
            raise BadTarget(f"host '{printable(text)}' has {wrong}", "write a host as gpu013, gpu[01-04] or gpu*")
        piece = match.group()
        pieces.append(_parse_bracket(piece) if piece.startswith("[") else piece)
        at = match.end()
    return HostPattern(text, tuple(pieces))


def _parse_bracket(bracket: str) -> tuple[Span, ...]:
    return tuple(_parse_span(span.strip(), bracket) for span in bracket[1:-1].split(","))


def _parse_span(text: str, bracket: str) -> Span:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise BadTarget(f"'{printable(bracket)}' is not a list of numbers", "write brackets as [01-04,07]")
    low, high = match.group(1), match.group(2) or match.group(1)
    if int(high) < int(low):
        raise BadTarget(f"range '{text}' in '{printable(bracket)}' is empty", "write the smaller number first")
    return Span(int(low), int(high), len(low))


def _ends(piece: str | tuple[Span, ...], host: str, start: int) -> Iterable[int]:
    if piece == "*":
        return range(start, len(host) + 1)
    if isinstance(piece, str):
        return (start + len(piece),) if host.startswith(piece, start) else ()
    ends = range(start + 1, len(host) + 1)
    return [end for end in ends if any(span.fits(host[start:end]) for span in piece)]


# -------------------------------------------------------------------------------------------------- ranks of a target


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The ranks that match a target, ordered by job, rank and child.

    ``note`` names the numbers that were taken as local ranks. ``single`` is True if the target's form names exactly one
    rank; ``ranks`` then holds one rank, except with ``any_job``.
    """

    ranks: tuple[RankInfo, ...]
    note: str | None
    single: bool


def select(target: Target, ranks: Sequence[RankInfo], *, any_job: bool = False) -> Selection:
    """Select the ranks that match ``target``; at least one is returned.

    With ``any_job`` ranks of several jobs are returned, as for a list. Raise :class:`~dbg_wire.errors.NoSuchRank` if
    nothing matches. Raise :class:`~dbg_wire.errors.AmbiguousTarget` if a target without a job matches live ranks of
    several jobs. The same error is raised if a target that names one rank matches several live ranks.
    """
    return _select(target, ranks, _living_jobs(ranks), any_job=any_job)


def _select(target: Target, ranks: Sequence[RankInfo], living: frozenset[str], *, any_job: bool = False) -> Selection:
    excluded = {rank.key: term for term in target.exclude for rank in _matching(term, ranks, by_job=True)}
    in_job: dict[str, Term] = {}
    loose: dict[str, Term] = {}
    hidden: list[RankInfo] = []
    for term in target.include:
        matching = _matching(term, ranks, by_job=any_job or term.job is not None)
        is_group = isinstance(term.what, Group)
        if not any_job and _means_the_present(term):
            hidden += [rank for rank in matching if _is_of_the_past(rank, living)]
            matching = [rank for rank in matching if not _is_of_the_past(rank, living)]
        matching = matching if is_group else _visible(matching)
        named = loose if term.job is None and not is_group else in_job
        named.update((rank.key, term) for rank in matching if rank.key not in excluded)
    found = loose | in_job
    chosen = [rank for rank in ranks if rank.key in found]
    if not chosen:
        known = sum(rank.state is not RankState.EXITED for rank in ranks)
        past = max(hidden, key=_age) if hidden else None
        past_name = f"{past.job}/{past.address}" if past is not None else None
        raise NoSuchRank(target.text, known, past_name, len(ranks) - known)
    if not any_job:
        job = _one_job(target, [rank for rank in chosen if rank.key in loose])
        chosen = [rank for rank in chosen if rank.key in in_job or rank.job == job]
        chosen = _one_rank(target, chosen, ranks) if target.single else chosen
    jobs = {rank.job for rank in chosen}
    without = [rank for rank in ranks if rank.key in excluded and rank.job in jobs]
    notes = [*_local_notes("", chosen, found), *_local_notes("without ", without, excluded)]
    return Selection(ranks=tuple(sorted(chosen, key=rank_order)), note="; ".join(notes) or None, single=target.single)


def unique_target(rank: RankInfo, ranks: Sequence[RankInfo]) -> str:
    """Return the shortest target that selects only ``rank`` among ``ranks``.

    The target is ``host:rank``, else ``job/host:rank``, else ``job/host:rank@pid``. The last form is also returned if
    no target selects only this rank. This happens if two ranks have the same full address and process id, or if the
    name of the host or job can't be written in a target.
    """
    return _unique(rank, [other for other in ranks if other.host == rank.host], _living_jobs(ranks))


def unique_targets(ranks: Sequence[RankInfo]) -> dict[str, str]:
    """Return :func:`unique_target` of each rank by its key, fast enough for thousands of ranks."""
    living = _living_jobs(ranks)
    near: defaultdict[tuple[str, int | str | None], list[RankInfo]] = defaultdict(list)
    for rank in ranks:
        for number in {rank.rank, rank.local_rank, _classic_mark(rank)}:
            near[rank.host, number].append(rank)
    return {rank.key: _unique(rank, near[rank.host, _classic_mark(rank) or rank.rank], living) for rank in ranks}


def _living_jobs(ranks: Sequence[RankInfo]) -> frozenset[str]:
    return frozenset(rank.job for rank in ranks if rank.state in LIVE_STATES and not rank.is_classic)


def _means_the_present(term: Term) -> bool:
    """Return True if a term names no job or process, and is not a group or a classic session."""
    return term.job is None and term.pid is None and not isinstance(term.what, (Group, Classic))


def _is_of_the_past(rank: RankInfo, living: frozenset[str]) -> bool:
    """Return True if a rank has exited and its job has no live rank, while another job is live."""
    return rank.state is RankState.EXITED and bool(living) and rank.job not in living


def _unique(rank: RankInfo, near: Sequence[RankInfo], living: frozenset[str]) -> str:
    in_job = f"{rank.job}/{rank.address}"
    is_hidden = _is_of_the_past(rank, living) and not rank.is_classic
    for text in (in_job,) if is_hidden else (rank.address, in_job):
        try:
            found = _select(parse_target(text), near, living).ranks
        except (BadTarget, AmbiguousTarget, NoSuchRank):
            continue
        if [other.key for other in found] == [rank.key]:
            return text
    return f"{rank.job}/{rank.address}@{rank.pid}"


def _classic_mark(rank: RankInfo) -> str | None:
    """Return ``?1`` for a classic session, whose field ``rank`` is not a rank number, or None for a rank."""
    return rank.address.rpartition(":")[2] if rank.is_classic else None


def _matching(term: Term, ranks: Sequence[RankInfo], *, by_job: bool) -> list[RankInfo]:
    """Return the matching ranks in any state; ``by_job`` chooses global or local numbers for each job separately."""
    hosts = {rank.host: term.host is None or term.host.fits(rank.host) for rank in ranks}
    jobs = {job: term.fits_job(job) for job in {rank.job for rank in ranks}}
    pool = [rank for rank in ranks if jobs[rank.job] and term.pid in {None, rank.pid} and hosts[rank.host]]
    what = term.what
    if isinstance(what, Word):
        return [rank for rank in pool if what.fits(rank)]
    if isinstance(what, Group):
        return [rank for rank in pool if rank.key in what.keys]
    if isinstance(what, Classic):
        return [rank for rank in pool if _classic_mark(rank) == what.mark]
    pool = [rank for rank in pool if _classic_mark(rank) is None]
    if term.host is None or term.pid is not None:
        return [rank for rank in pool if what.fits(rank.rank, rank.child)]
    groups: defaultdict[tuple[str, str], list[RankInfo]] = defaultdict(list)
    for rank in pool:
        groups[rank.job if by_job else "", rank.host].append(rank)
    return [rank for group in groups.values() for rank in _global_or_local(what, group)]


def _global_or_local(numbers: Numbers, group: Sequence[RankInfo]) -> list[RankInfo]:
    as_global = [rank for rank in group if numbers.fits(rank.rank, rank.child)]
    as_local = [rank for rank in group if numbers.fits(rank.local_rank, rank.child)]
    for states in (LIVE_STATES, {RankState.LOST}, {RankState.EXITED}):
        for reading in (as_global, as_local):
            if any(rank.state in states for rank in reading):
                return reading
    return []


def _visible(matching: Sequence[RankInfo]) -> list[RankInfo]:
    live = [rank for rank in matching if rank.state in LIVE_STATES]
    taken = {rank.full_address for rank in live}
    gone: dict[str, RankInfo] = {}
    for rank in sorted(matching, key=_age):
        if rank.full_address not in taken:
            gone[rank.full_address] = rank
    shown = [*live, *gone.values()]
    return [rank for rank in shown if rank.state is not RankState.EXITED] or shown


def _one_job(target: Target, loose: Sequence[RankInfo]) -> str | None:
    """Return the job that terms without a job select, or None if they have found nothing."""
    live = [rank for rank in loose if rank.state in LIVE_STATES]
    if len({rank.job for rank in live}) > 1:
        raise AmbiguousTarget(target.text, [in_job(target.text, job) for job in sorted({rank.job for rank in live})])
    return max(live or loose, key=_age).job if loose else None


def _one_rank(target: Target, chosen: list[RankInfo], ranks: Sequence[RankInfo]) -> list[RankInfo]:
    """Return the only live rank, or the newest rank if none is live."""
    live = [rank for rank in chosen if rank.state in LIVE_STATES]
    if len(live) > 1:
        raise AmbiguousTarget(target.text, _candidates(live, ranks))
    return live or [max(chosen, key=_age)]


def _candidates(live: Sequence[RankInfo], ranks: Sequence[RankInfo]) -> list[str]:
    """Name live ranks, one of each job in turn, so that the first few show every job."""
    times = Counter(rank.full_address for rank in ranks if rank.state in LIVE_STATES)
    jobs: defaultdict[str, list[str]] = defaultdict(list)
    for rank in sorted(live, key=rank_order):
        again = f"@{rank.pid}" if times[rank.full_address] > 1 else ""
        jobs[rank.job].append(f"{rank.job}/{rank.address}{again}")
    names = [name for turn in zip_longest(*jobs.values()) for name in turn if name is not None]
    return names if len(names) <= MAX_CANDIDATES else names[: min(len(jobs), MAX_CANDIDATES)]


def _local_notes(lead: str, ranks: Sequence[RankInfo], terms: dict[str, Term]) -> list[str]:
    hosts: defaultdict[str, list[RankInfo]] = defaultdict(list)
    for rank in sorted(ranks, key=rank_order):
        term = terms[rank.key]
        if term.host is not None and isinstance(term.what, Numbers) and not term.what.fits(rank.rank, rank.child):
            hosts[rank.host].append(rank)
    notes = [f"{lead}{_local_note(host, taken)}" for host, taken in list(hosts.items())[:MAX_NOTED_HOSTS]]
    more = len(hosts) - len(notes)
    return [*notes, f"{lead}local ranks of {more} more hosts"] if more else notes


def _local_note(host: str, ranks: Sequence[RankInfo]) -> str:
    local = format_ranks(rank.local_rank for rank in ranks if rank.local_rank is not None)
    address = ranks[0].address if len(ranks) == 1 else f"{host}:{format_ranks(rank.rank for rank in ranks)}"
    return f"{printable(address)}, local {local}"


def _age(rank: RankInfo) -> tuple[float, str]:
    return rank.since, rank.key
