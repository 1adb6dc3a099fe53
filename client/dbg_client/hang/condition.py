"""What one rank does by itself, whatever others wait for, and its line of evidence. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dbg_client.core.process_groups import ProcessGroup, RankEvidence, Roster, has_peer
from dbg_client.hang.verdict import MAX_EVIDENCE, VerdictKind
from dbg_client.views.naming import clip
from dbg_client.views.tree import is_library
from dbg_client.views.waits import Age, age_of, of_about_one_age, show_age, told_for
from dbg_wire.errors import printable
from dbg_wire.messages import Kind
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, ThreadWait, WaitKind
from dbg_wire.records.ranks import IN_FINALIZE, LIVE_STATES, Place, RankInfo, RankState, describe_exit
from dbg_wire.tables.collectives import collective_of
from dbg_wire.targets.rank_set import format_ranks

MAX_TEXT = 160
"""Characters of a text that a rank has told, in one line."""

MAX_NAME, MAX_THREADS = 40, 4
"""Characters of the name of a thread, and threads of a deadlock, in one sentence."""

_WAITS: Mapping[WaitKind, VerdictKind] = {
    **dict.fromkeys(
        (WaitKind.LOCK, WaitKind.DATA, WaitKind.FILE, WaitKind.SOCKET, WaitKind.CHILD, WaitKind.SLEEP),
        VerdictKind.WAITING,
    ),
    WaitKind.NATIVE: VerdictKind.STUCK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What is wrong with a rank, if anything: ``text`` follows ``rank 3``, as in ``is suspended (SIGSTOP)``.

    ``cause`` is the same after ``has not come:``. ``age`` is for how many seconds it has been so. ``is_still`` says
    that the rank can't go on by itself, or has been at one instruction for ``age``. ``holder`` is the process on its
    host that alone has what it waits for.
    """

    kind: VerdictKind | None
    text: str = ""
    age: float | None = None
    is_still: bool = False
    threads: tuple[ThreadWait, ...] = ()
    holder: int | None = None
    note: str = ""
    """What the kernel tells of the process, such as that a tracer has stopped it."""
    ended: tuple[str, ...] = ()
    """Threads that an exception has ended, as in ``thread pump ended by OSError (data.py:7)``."""

    @property
    def cause(self) -> str:
        """Return the text as the second half of a sentence about a single rank."""
        return f"it {self.text}" if self.text else ""


def condition_of(one: RankEvidence, now: float) -> Condition:
    """Return the condition of a rank; ``now`` is wall-clock seconds, as the broker tells them."""
    process = one.evidence.process if one.evidence is not None else None
    note = printable(process.note, 2 * MAX_TEXT) if process is not None else ""
    waits = one.evidence.waits if one.evidence is not None else ()
    ended = tuple(
        f"thread {printable(wait.thread, MAX_NAME)} {printable(wait.text, MAX_TEXT)}"
        for wait in waits
        if wait.kind is WaitKind.ENDED
    )
    return replace(_condition(one, now), note=note, ended=ended[-MAX_THREADS:])


def _condition(one: RankEvidence, now: float) -> Condition:
    rank = one.rank
    since = max(0.0, now - rank.since) if rank.since else None
    if rank.state is RankState.EXITED:
        return Condition(kind=VerdictKind.DEAD, text=_end(rank, since), age=since, is_still=True)
    if rank.state is RankState.LOST:
        ago = f" since {show_age(since)}" if since is not None else ""
        text = f"is lost: its connection is gone{ago}, and its process may live"
        return Condition(kind=VerdictKind.DEAD, text=text, age=since, is_still=True)
    if rank.state is RankState.STOPPED:
        text = f"stands in the debugger{_at(rank.where)}"
        return Condition(kind=VerdictKind.WAITING, text=text, age=since, is_still=True)
    if rank.state is RankState.HELD:
        text = f"is held{_at(rank.where)} for others that stand in the debugger"
        return Condition(kind=None, text=text, age=since, is_still=True)
    return _of_live(one, since)


def _of_live(one: RankEvidence, since: float | None) -> Condition:
    process = one.evidence.process if one.evidence is not None else None
    text = printable(one.answer.text, MAX_TEXT).partition(";")[0]
    if text.startswith("suspended") or (process is not None and process.state in ("T", "t")):
        said = text if text.startswith("suspended") else "suspended"
        return Condition(kind=VerdictKind.SUSPENDED, text=f"is {said}", age=one.answer.age, is_still=True)
    if text.startswith("stuck"):
        return Condition(kind=VerdictKind.STUCK, text=f"is {text}", age=one.answer.age, is_still=True)
    if one.rank.state is RankState.UNRESPONSIVE:
        ago = f" for {show_age(since)}" if since is not None else ""
        text = f"has been silent{ago}: its interpreter is stuck in C code, or its process is suspended"
        return Condition(kind=VerdictKind.STUCK, text=text, age=since, is_still=True)
    return _of_threads(one)


def _of_threads(one: RankEvidence) -> Condition:
    waits = one.evidence.waits if one.evidence is not None else ()
    locked = tuple(wait for wait in waits if wait.deadlock)
    age = one.answer.age
    if locked:
        first = tuple(wait for wait in locked if wait.deadlock == locked[0].deadlock)
        text = f"has a deadlock: {_circle(first)}"
        return Condition(kind=VerdictKind.DEADLOCK, text=text, age=age, is_still=True, threads=first)
    main = next((wait for wait in waits if wait.is_main), None)
    if main is None or collective_of(one.answer.frames):
        return Condition(kind=None, age=age)
    kind = _WAITS.get(main.kind)
    if kind is None:
        # Not all calls of a library are known as collectives, and so are told by the thread alone.
        text = printable(main.text, MAX_TEXT) if main.kind is WaitKind.COLLECTIVE else ""
        return Condition(kind=None, text=text, age=age)
    return Condition(kind=kind, text=printable(main.text, MAX_TEXT), age=age, holder=main.holder)


def _circle(threads: tuple[ThreadWait, ...]) -> str:
    if len(threads) == 1:
        return f"thread {printable(threads[0].thread, MAX_NAME)} {printable(threads[0].text, MAX_TEXT)}"
    names = [printable(one.thread, MAX_NAME) for one in threads[:MAX_THREADS]]
    more = " and others" if len(threads) > MAX_THREADS else ""
    return f"threads {', '.join(names[:-1])} and {names[-1]}{more} wait for each other"


def _end(rank: RankInfo, since: float | None) -> str:
    if rank.detail == IN_FINALIZE:
        ended = f" {show_age(since)} ago" if since is not None else ""
        return f"came to the end of its program{ended}; {IN_FINALIZE}"
    how = describe_exit(rank)
    verb = "" if how == "died" else "was " if how.startswith("killed") else "has "
    ago = f" {show_age(since)} ago" if since is not None else ""
    told, _, more = rank.detail.partition("; ")
    if told and told in how:
        return f"{verb}{how}{ago}{f'; {printable(more, MAX_TEXT)}' if more else ''}"
    detail = f" ({printable(rank.detail, MAX_TEXT)})" if rank.detail else ""
    return f"{verb}{how}{detail}{ago}"


def _at(place: Place | None) -> str:
    return f" ({printable(place.file.rpartition('/')[2], MAX_TEXT)}:{place.line})" if place is not None else ""


MAX_FUNCTIONS = 3
"""Functions of the user's code that a line names."""

MAX_NAMES = 20
"""Columns for the ranks of one line."""


NO_WAITS: Mapping[int, str] = {}
"""No rank waits in another collective."""


def rank_lines(
    numbers: Sequence[int],
    roster: Roster,
    conditions: Mapping[int, Condition],
    group: ProcessGroup | None = None,
    waits: Mapping[int, str] = NO_WAITS,
) -> list[str]:
    """Return a line for each of the ranks, one for those of which the same is true, for about as long.

    ``conditions`` are those that no sentence has told; ``group`` is the one whose last collective is of interest.
    ``waits`` are the collectives that ranks wait in.
    """
    alike: defaultdict[_Line, dict[int, Age]] = defaultdict(dict)
    for number in numbers:
        one = roster.get(number)
        if one is None:
            alike[_Line("never connected")][number] = Age()
        else:
            line = _line_of(one, conditions.get(number), group, waits.get(number, ""))
            alike[line][number] = _age_of(one)
    rows = [(line, some) for line, ages in alike.items() for some in of_about_one_age(ages)]
    rows.sort(key=lambda row: (-len(row[1]), min(row[1])))
    shown = [f"{clip(format_ranks(sorted(some)), MAX_NAMES)}  {line.with_age(some)}" for line, some in rows]
    rest = sum(len(some) for _, some in rows[MAX_EVIDENCE - 1 :])
    return [*shown[: MAX_EVIDENCE - 1], f"and {rest} more; --json names them"] if rest else shown


def place_of(frames: Sequence[Place]) -> str:
    """Return where a stack is in the user's code: ``data.py:17 wait_for_shard < next_batch``; empty without one."""
    own = [place for place in frames if not is_library(place.file)] or list(frames)
    if not own:
        return ""
    inner = own[-1]
    functions = [printable(place.function, 60) for place in reversed(own[-MAX_FUNCTIONS:])]
    if functions[-1] == "<module>" and len(functions) > 1:
        del functions[-1]
    return f"{printable(inner.file.rpartition('/')[2], 60)}:{inner.line} {' < '.join(functions)}"


@dataclass(frozen=True, slots=True)
class _Line:
    """What is said of a rank: where it is, what else is known, and the collective that it finished last."""

    where: str
    news: tuple[str, ...] = ()
    last: str = ""

    def with_age(self, ages: Mapping[int, Age]) -> str:
        """Return the line of ranks that have been there for about as long."""
        told = told_for(list(ages.values()))
        news = [*self.news, f"in it for {told}" if told else "", self.last]
        said = "; ".join(filter(None, news))
        return f"{self.where}     {said}" if said else self.where


def _age_of(one: RankEvidence) -> Age:
    return age_of(one.answer) if one.answer.frames else Age()


def _line_of(one: RankEvidence, condition: Condition | None, group: ProcessGroup | None, waits_in: str) -> _Line:
    state = one.rank.state.value
    if one.answer.kind is not Kind.VALUE and one.rank.state in LIVE_STATES:
        state = "silent" if one.rank.state.value == "running" else state
    pieces = [piece for piece in (state, place_of(one.answer.frames)) if piece]
    news = []
    if waits_in:
        news.append(f"{'waits' if one.rank.state in LIVE_STATES else 'was'} in {waits_in}")
    # A thread's call of the library says no more than the collective.
    if (
        condition is not None
        and condition.text
        and not (waits_in and condition.kind is None and not condition.is_still)
    ):
        news.append(condition.text)
    if one.rank.passed:
        news.append(printable(f"passed {one.rank.passed}"))
    last = last_finished(one, group)
    return _Line("  ".join(pieces), tuple(news), f"last collective it finished: {last}" if last else "")


def last_finished(one: RankEvidence, group: ProcessGroup | None) -> str:
    """Return the last collective that a rank has finished, of this group if it tells; empty if unknown."""
    if one.evidence is None:
        return ""
    name = group.name if group is not None else None
    done = [
        call
        for call in one.evidence.collectives
        if call.state is CollectiveState.COMPLETED and not has_peer(call) and (name is None or call.group == name)
    ]
    if not done:
        return ""
    last: CollectiveSeen = max(done, key=lambda call: (call.sequence or 0, -(call.age or 0.0)))
    number = f" #{last.sequence}" if last.sequence is not None else ""
    label = f" of {group.label}" if group is not None and group.label else ""
    return printable(f"{last.name}{number}{label}", MAX_TEXT)


def thread_lines(condition: Condition) -> list[str]:
    """Return the threads of a deadlock, each with its stack and what it waits for."""
    return [
        f"thread {printable(wait.thread, 60)}  {place_of(wait.frames)}     {printable(wait.text, MAX_TEXT)}".rstrip()
        for wait in condition.threads
    ]
