"""The lines of evidence below a verdict: where ranks are, since when, and what they finished last. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_client.views.ages import SHORTEST_SECONDS, Age, age_of, show_age
from dbg_client.views.naming import clip
from dbg_client.views.tree import file_line, own_frames
from dbg_client.why.collective_matching import PendingCollective
from dbg_client.why.condition import Condition
from dbg_client.why.process_groups import ProcessGroup, RankEvidence, Roster, has_peer
from dbg_client.why.scene import Scene
from dbg_client.why.verdict import MAX_EVIDENCE, NamedRanks, payload_of, short_name
from dbg_client.why.wait_text import MAX_TEXT, wait_text
from dbg_wire.errors import printable
from dbg_wire.messages import Kind
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState
from dbg_wire.records.ranks import LIVE_STATES, Place

MAX_FUNCTIONS = 3
"""Functions of the user's code that a line names."""

MAX_NAMES = 20
"""Columns for the ranks of one line."""

NEAR_SECONDS = 2.0

NEAR_FACTOR = 1.5
"""Ages that differ by no more than this are about the same: ranks come to a place, and are asked, one after another."""

MAX_DEADLOCKS = 4
"""Ranks whose deadlocked threads are told of one by one."""

MAX_LACKS = 4
"""Different lacks of libraries that are told."""

NO_LIBRARY = "no library that tells of collectives is loaded in these ranks, so that their stacks alone count"


def lines_about(
    scene: Scene,
    numbers: Sequence[int],
    standing: PendingCollective | None = None,
    *,
    is_cause_told: bool = False,
    told: Sequence[str] = (),
) -> list[str]:
    """Return the lines of evidence about these ranks, then deadlocked threads and what the kernel tells.

    Threads that have ended follow, apart from those that the sentence has ``told``.
    """
    group = standing.group if standing is not None else None
    conditions = {} if is_cause_told else scene.conditions
    lines = rank_lines(numbers, scene.matched.roster, conditions, group, _waits_in(scene, standing))
    for number in numbers[:MAX_DEADLOCKS]:
        if number in scene.conditions:
            condition = scene.conditions[number]
            lines += thread_lines(condition)
            handles = [condition.handles] if condition.is_loop else []
            notes = [condition.note, *condition.ended, *handles]
            lines += [f"rank {number}: {note}" for note in notes if note and note not in told]
    return lines


def _waits_in(scene: Scene, told: PendingCollective | None) -> dict[int, str]:
    """Return what each rank waits in, apart from what the sentence has told."""
    found: dict[int, str] = {}
    for standing in scene.matched.standings:
        if standing is not told:
            for number in standing.calls:
                found.setdefault(number, short_name(standing))
    return found


def rank_lines(
    numbers: Sequence[int],
    roster: Roster,
    conditions: Mapping[int, Condition],
    group: ProcessGroup | None,
    waits: Mapping[int, str],
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
            alike[line][number] = age_of(one.answer) if one.answer.frames else Age()
    rows = [(line, some) for line, ages in alike.items() for some in of_about_one_age(ages)]
    rows.sort(key=lambda row: (-len(row[1]), min(row[1])))
    shown = [f"{clip(format_ranks(sorted(some)), MAX_NAMES)}  {line.with_age(some)}" for line, some in rows]
    rest = sum(len(some) for _, some in rows[MAX_EVIDENCE - 1 :])
    return [*shown[: MAX_EVIDENCE - 1], f"and {rest} more; --json names them"] if rest else shown


def place_of(frames: Sequence[Place]) -> str:
    """Return where a stack is in the user's code: ``data.py:17 wait_for_shard < next_batch``; empty without one."""
    own = own_frames(frames) or list(frames)
    if not own:
        return ""
    functions = [printable(place.function, 60) for place in reversed(own[-MAX_FUNCTIONS:])]
    if functions[-1] == "<module>" and len(functions) > 1:
        del functions[-1]
    return f"{file_line(own[-1])} {' < '.join(functions)}"


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
    last = last_call(one, group)
    if last is None:
        return ""
    number = f" #{last.sequence}" if last.sequence is not None else ""
    label = f" of {group.title}" if group is not None and group.label else ""
    return printable(f"{last.name}{number}{label}", MAX_TEXT)


def last_call(one: RankEvidence, group: ProcessGroup | None) -> CollectiveSeen | None:
    """Return the last collective that a rank has finished, of this group if it tells; None if unknown."""
    name = group.name if group is not None else None
    done = [
        call
        for call in (one.evidence.collectives if one.evidence is not None else ())
        if call.state is CollectiveState.COMPLETED and not has_peer(call) and (name is None or call.group == name)
    ]
    return max(done, key=lambda call: (call.sequence or 0, -(call.age or 0.0)), default=None)


def thread_lines(condition: Condition) -> list[str]:
    """Return the threads of a deadlock, each with its stack and what it waits for."""
    return [
        f"thread {printable(wait.thread, 60)}  {place_of(wait.frames)}     {wait_text(wait.does)}".rstrip()
        for wait in condition.threads
    ]


def call_lines(scene: Scene, standing: PendingCollective) -> list[str]:
    """Return what a collective exchanges, where it was called, roots that differ, and when the library gives up."""
    payload = payload_of(standing)
    roots = standing.roots
    places: defaultdict[Place, list[int]] = defaultdict(list)
    for number, call in standing.calls.items():
        # Who waits for a call that it made before is elsewhere in its code.
        if call.place is not None and call.place not in scene.matched.roster[number].answer.frames:
            places[call.place].append(number)
    called = sorted(places.items(), key=lambda one: (-len(one[1]), one[1]))[:MAX_FUNCTIONS]
    said = "; ".join(f"root {root} in {clip(format_ranks(some), 40)}" for root, some in sorted(roots.items()))
    return [
        *([f"{printable(standing.call, 80)} is for {payload}"] if payload else []),
        *(f"{scene.names.ranks(some)} called it at {place_of([place])}" for place, some in called),
        *([f"their calls differ: {said}"] if len(roots) > 1 else []),
        *time_left(standing),
    ]


def time_left(standing: PendingCollective) -> list[str]:
    """Return the line that says when the library gives up, if that is known."""
    seconds = standing.seconds_left
    if seconds is None:
        return []
    member = next(iter(standing.group.members.values()))
    library = printable(member.seen.backend or standing.group.library, 40)
    article = "an" if library[:1] in "aeio" else "a"
    # NCCL is spelt: an N begins with a vowel.
    article = "an" if library.lower().startswith(("nccl", "mpi")) else article
    what = "send or receive" if standing.has_peer else "collective"
    return [f"{article} {library} {what} of these ranks times out in {show_age(seconds)}"]


def lacks(roster: Roster, names: NamedRanks) -> list[str]:
    """Return a line for each thing that libraries can't tell of collectives, with the ranks in which it is so."""
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    bare = []
    for number, one in roster.items():
        if one.evidence is None:
            continue
        if not one.evidence.sources and not one.evidence.groups:
            bare.append(number)
        for source in one.evidence.sources:
            if source.lack:
                version = f" {printable(source.version, 40)}" if source.version else ""
                ranks[f"{source.library}{version}: {printable(source.lack, 2 * MAX_TEXT)}"].append(number)
    everybody = len(roster)
    lines = [
        lack if len(numbers) == everybody else f"{names.ranks(numbers)}: {lack}"
        for lack, numbers in sorted(ranks.items())[:MAX_LACKS]
    ]
    if bare and len(bare) == everybody:
        lines.append(NO_LIBRARY)
    return lines


def of_about_one_age(ages: Mapping[int, Age]) -> list[dict[int, Age]]:
    """Return the ranks in groups of about the same age; those whose age is unknown, or no news, are one group."""
    no_news = {number: age for number, age in ages.items() if not _news(age)}
    groups = [no_news] if no_news else []
    limit = 0.0
    for number, age in sorted(ages.items(), key=lambda item: _news(item[1]))[len(no_news) :]:
        if _news(age) > limit:
            groups.append({})
            limit = max(_news(age) * NEAR_FACTOR, _news(age) + NEAR_SECONDS)
        groups[-1][number] = age
    return groups


def told_for(ages: Sequence[Age]) -> str:
    """Return for how long all of these ranks have been where they are, as ``at least 5 s``; empty if it is no news."""
    seconds = min(map(_news, ages), default=0.0)
    if not seconds:
        return ""
    differ = show_age(max(map(_news, ages))) != show_age(seconds)
    return f"{'at least ' if differ or any(age.at_least for age in ages) else ''}{show_age(seconds)}"


def _news(age: Age) -> float:
    """Return the seconds of an age; 0 if it is unknown, or too short to be news."""
    return age.seconds if age.seconds is not None and age.seconds >= SHORTEST_SECONDS else 0.0
