"""How ranks are named: the grammar of targets and its parser. What a target selects is in ``selection.py``.

::

    target = term { "," term }
    term   = [ "!" ] [ job "/" ] what                   "!" leaves ranks out; it may stand after the "/" as well
    what   = "all" | "stopped" | "held" | "crashed" | "running" | "unresponsive" | "lost"
           | [ [ host ] ":" ] numbers                   5, 0-3, 0-1023/8, 0:8:2, the child 5.1, one process 5@4711
           | [ host ] ":*"
           | [ [ host ] ":" ] "?" number                a classic session, which has no rank
           | "@" name                                   a group of an earlier answer: @2, @err, @?
    job    = name, in which "*" is anything: train*/all, */5
    host   = name or IPv4 address, in which "*" is anything and "[01-04,07]" these numbers, zeros kept

Bare numbers after a comma belong to the numbers before it: ``gpu013:0-3,5`` is all on gpu013, ``all,!0-3,5`` leaves
out five ranks; ``:5`` starts a new term. A target that only leaves ranks out means all other ranks: of any job for
``!job/5``, of that job for ``job/!5``.

Some texts could be read in two ways. ``0:8`` is a slice, but if the first number is not the smaller one, it is a host
(the name of a container may be all digits). ``[12]:34`` always begins with a host. ``0-7/2`` has a step and no job.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from dbg_wire.errors import BadTarget, printable
from dbg_wire.records.ranks import CRASH, LIVE_STATES, RankInfo, RankState
from dbg_wire.targets.host_pattern import HostPattern, parse_host
from dbg_wire.targets.rank_set import RANK_PIECE, RankSet, parse_ranks

JOB_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""The names of jobs that can be written in a target."""

_JOB_PATTERN = re.compile(r"[A-Za-z0-9._*-]+")

MAX_TERMS = 1000
"""Terms in one target, as each costs a walk over all ranks; a list of numbers of any length is one term."""

_NUMBERS = rf"(?:{RANK_PIECE}|[0-9]+\.[0-9]+)"
_BARE_NUMBERS = re.compile(_NUMBERS)
_ENDS_IN_NUMBERS = re.compile(rf"(?:^|[!/:]){_NUMBERS}\Z")
_LIKE_NUMBERS = re.compile(r"[0-9/-]+|[0-9]+\.[0-9]+")
_SLICE = re.compile(r"([0-9]{1,8}):([0-9]{1,8})(:[0-9]+)?")
_STEP = re.compile(r"[0-9]+-[0-9]+/[0-9]+")
_CHILD = re.compile(r"([0-9]{1,8})\.([0-9]{1,8})")
_CLASSIC = re.compile(r"\?[0-9]{1,8}")
_GROUP = re.compile(r"@(?:[a-z]{1,8}|\?)?[0-9]{0,8}")
_PID = re.compile(r"[0-9]{1,10}")
_UP_TO_COMMA = re.compile(r"(?:\[[^\[\]]*\]|[^,\[]|\[)*")


class Word(str, enum.Enum):
    """The words that stand for ranks."""

    ALL = "all"
    STOPPED = "stopped"
    HELD = "held"
    CRASHED = "crashed"
    RUNNING = "running"
    UNRESPONSIVE = "unresponsive"
    LOST = "lost"

    def fits(self, rank: RankInfo) -> bool:
        """Return whether the rank is in the state that the word means; a crashed rank is stopped as well."""
        if self is Word.ALL:
            return True
        if self is Word.CRASHED:
            return rank.reason == CRASH and rank.state in LIVE_STATES
        return rank.state is RankState(self.value)


_WORDS = {word.value: word for word in Word}


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of ranks, and the numbers of children as (rank, child)."""

    ranks: RankSet
    children: frozenset[tuple[int, int]] = frozenset()

    def __len__(self) -> int:
        return len(self.ranks) + len(self.children)

    def fits(self, number: int | None, child: int | None) -> bool:
        """Return whether a rank of this number is meant; a rank doesn't stand for its children."""
        return number is not None and (number in self.ranks if child is None else (number, child) in self.children)


@dataclass(frozen=True, slots=True)
class Classic:
    """The mark of a classic session, ``?1``."""

    mark: str


@dataclass(frozen=True, slots=True)
class Group:
    """The name of a group of an earlier answer, ``@2``, and the keys of its ranks, empty until they are looked up."""

    name: str
    keys: frozenset[str] = frozenset()


What = Word | Numbers | Classic | Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One term; ``job`` is a name, a pattern in which ``*`` is anything, or None if the user named none."""

    what: What
    job: str | None = None
    host: HostPattern | None = None
    pid: int | None = None

    @property
    def names_one(self) -> bool:
        """Return whether the term by its form names one rank."""
        in_one_job = self.job is None or "*" not in self.job
        return _is_one(self.what) and in_one_job and (self.host is None or self.host.exact is not None)

    def fits_job(self, job: str) -> bool:
        """Return whether a rank of this job may be meant."""
        if self.job is None or self.job in ("*", job):
            return True
        return "*" in self.job and _fits_pattern(self.job, job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target: the ranks that fit a term of ``include`` and none of ``exclude``; ``text`` is as typed."""

    text: str
    include: tuple[Term, ...]
    exclude: tuple[Term, ...] = ()

    @property
    def single(self) -> bool:
        """Return whether the target by its form names one rank, so that a terminal may attach to it."""
        return not self.exclude and len(self.include) == 1 and self.include[0].names_one


def in_job(text: str, job: str) -> str:
    """Return a target that can be read with its terms in this job, but for those that name a job or a group."""
    groups = _group(text)
    terms = [_in_job(pieces[0], job) for pieces in groups]
    if all(pieces[0].startswith("!") for pieces in groups):
        # Alone, !job/5 means all jobs but for that rank, and job/!5 that job.
        whole = [f"{job}/{pieces[0]}" for pieces in groups]
        terms = whole if not any(map(_names_job, groups)) else [f"{job}/all,{terms[0]}", *terms[1:]]
    return ",".join(",".join([term, *pieces[1:]]) for term, pieces in zip(terms, groups, strict=True))


def _in_job(piece: str, job: str) -> str:
    if _names_job([piece]):
        return piece
    body = piece.removeprefix("!")
    return f"{piece[: len(piece) - len(body)]}{job}/{body}"


def _names_job(group: list[str]) -> bool:
    body = group[0].removeprefix("!")
    return _split_job(body)[0] is not None or (len(body) > 1 and _GROUP.fullmatch(body) is not None)


def parse_target(text: str) -> Target:
    """Read a target; raise :class:`~dbg_wire.errors.BadTarget` with the piece that can't be read."""
    if "://" in text:
        raise BadTarget(f"'{printable(text)}' is a URL and no rank", "write host:rank")
    groups = _group(text)
    if len(groups) > MAX_TERMS:
        raise BadTarget(f"the target has {len(groups)} terms", f"write ranges, and no more than {MAX_TERMS} terms")
    include: list[Term] = []
    exclude: list[Term] = []
    scopes: list[str | None] = []
    for group in groups:
        leaves_out, scope, term = _parse_term(group)
        if leaves_out:
            exclude.append(term)
            scopes.append(scope)
        else:
            include.append(term)
    if not include:
        include = [Term(what=Word.ALL, job=scope) for scope in dict.fromkeys(scopes)]
    return Target(text=text, include=tuple(include), exclude=tuple(exclude))


def _group(text: str) -> list[list[str]]:
    """Divide a target at its commas; bare numbers stay with the numbers before them."""
    groups: list[list[str]] = []
    for piece in _split(text):
        if not piece:
            raise BadTarget(f"target '{printable(text)}' has an empty piece", "write targets as gpu013:5 or all,!0-3")
        if groups and _is_bare_numbers(piece) and _ENDS_IN_NUMBERS.search(groups[-1][-1]):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _is_bare_numbers(text: str) -> bool:
    return _BARE_NUMBERS.fullmatch(text) is not None and (":" not in text or _is_slice(text))


def _is_slice(text: str) -> bool:
    match = _SLICE.fullmatch(text)
    return match is not None and (match.group(3) is not None or int(match.group(1)) < int(match.group(2)))


def _split(text: str) -> list[str]:
    """Divide at the commas outside brackets; an unclosed bracket divides too, and fails as a host."""
    pieces: list[str] = []
    at = 0
    while at <= len(text):
        match = _UP_TO_COMMA.match(text, at)
        end = match.end() if match else at
        pieces.append(text[at:end].strip())
        at = end + 1
    return pieces


def _parse_term(group: list[str]) -> tuple[bool, str | None, Term]:
    """Return whether the term leaves ranks out, the job that ``job/!`` names, and the term."""
    leaves_out = group[0].startswith("!")
    job, rest = _split_job(group[0].removeprefix("!"))
    scope = None
    if job is not None and not leaves_out and rest.startswith("!"):
        leaves_out, scope, rest = True, job, rest[1:]
    if len(rest) > 1 and _GROUP.fullmatch(rest):
        return leaves_out, scope, Term(what=Group(rest), job=job)
    body, at, pid = rest.partition("@")
    if not body:
        raise BadTarget(f"'{printable(group[0])}' names no rank", "write targets as gpu013:5, job/all or !5")
    host, what = _parse_what(body, group[1:])
    if at and not (_PID.fullmatch(pid) and _is_one(what)):
        raise BadTarget(
            f"'@{printable(pid)}' in '{printable(group[0])}' can't be read", "write one rank as gpu013:5@4711"
        )
    return leaves_out, scope, Term(what=what, job=job, host=host, pid=int(pid) if at else None)


def _split_job(text: str) -> tuple[str | None, str]:
    job, slash, rest = text.partition("/")
    if not slash or ":" in job or _STEP.fullmatch(text):
        return None, text
    if not _JOB_PATTERN.fullmatch(job):
        raise BadTarget(f"'{printable(job)}' is no job", "write a target in one job as job/gpu013:5, in all as */all")
    return job, rest


def _fits_pattern(pattern: str, name: str) -> bool:
    """Tell whether a name begins, goes on and ends as a pattern does, each part found as far left as can be."""
    first, *parts = pattern.split("*")
    last = parts.pop()
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for part in parts:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _is_one(what: What) -> bool:
    return isinstance(what, Classic) or (isinstance(what, Numbers) and len(what) == 1)


def _parse_what(body: str, more: list[str]) -> tuple[HostPattern | None, Word | Numbers | Classic]:
    if _is_slice(body):
        return None, _parse_numbers([body, *more])
    host, colon, rest = body.partition(":")
    if not colon:
        return None, _parse_bare(body, more)
    if not rest:
        raise BadTarget(f"'{printable(body)}' names no rank", f"write {printable(host)}:* for all ranks")
    return parse_host(host) if host else None, _parse_behind_colon(rest, more)


def _parse_behind_colon(rest: str, more: list[str]) -> Word | Numbers | Classic:
    if rest == "*":
        return Word.ALL
    if _CLASSIC.fullmatch(rest):
        return Classic(rest)
    return _parse_numbers([rest, *more])


def _parse_bare(body: str, more: list[str]) -> Word | Numbers | Classic:
    if body in _WORDS:
        return _WORDS[body]
    if _CLASSIC.fullmatch(body):
        return Classic(body)
    if _LIKE_NUMBERS.fullmatch(body):
        return _parse_numbers([body, *more])
    host = parse_host(body)
    all_of_it = f"{body}:* for all ranks of {'that host' if host.exact else 'such hosts'}"
    raise BadTarget(f"'{printable(body)}' names no rank", f"write {'all' if body == '*' else all_of_it}")


def _parse_numbers(pieces: list[str]) -> Numbers:
    children = [match for match in map(_CHILD.fullmatch, pieces) if match]
    ranks = [piece for piece in pieces if not _CHILD.fullmatch(piece)]
    return Numbers(
        parse_ranks(",".join(ranks)) if ranks else RankSet(frozenset()),
        frozenset((int(match.group(1)), int(match.group(2))) for match in children),
    )
