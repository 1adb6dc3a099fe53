"""Verdicts as text and as JSON: a sentence, lines of evidence, and the command to type next. Pure."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbg_client.views.ages import SHORTEST_SECONDS, Age, age_of, show_age
from dbg_client.views.groups import paint
from dbg_client.views.naming import clip
from dbg_client.views.tree import file_line, own_frames
from dbg_client.why.collective_matching import PendingCollective
from dbg_client.why.collectives import limitations
from dbg_client.why.condition import State, waits_of
from dbg_client.why.names import agreeing, show_bytes
from dbg_client.why.process_groups import ProcessGroup, RankEvidence
from dbg_client.why.reasons import MAX_LINKS, MAX_TEXT, WHOLE, Brevity, Reasons
from dbg_client.why.sentences import COLUMNS, Sentences, has_tag, sentence_of, short_name, shortened_sentence
from dbg_client.why.verdict import HARMLESS, Certainty, Finding, NextStep, Topic, Verdict, VerdictKind
from dbg_client.why.wait_analysis import WaitAnalysis, last_call
from dbg_client.why.wait_text import process_text, wait_text
from dbg_wire.errors import Remedy, printable
from dbg_wire.messages import Kind
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.evidence import WaitKind
from dbg_wire.records.ranks import LIVE_STATES, Place

if TYPE_CHECKING:
    from dbg_client.why.explain import Explanation

MAX_LINE = 1000
"""Maximum characters of one line. Each text from a rank in the line has a lower limit of its own."""

INDENT = "  "

LEAST_COLUMNS = 40
"""Minimum columns for wrapped lines. With fewer, each line would be one word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Report on the ``ranks`` of one job: a sentence, lines of evidence below it, and the next command.

    ``group`` and ``collective`` are set only if the report is about a collective.
    """

    job: str
    sentence: str
    certainty: Certainty | None = None
    ranks: tuple[int, ...] = ()
    group: str | None = None
    collective: str | None = None
    evidence: tuple[str, ...] = ()
    next: NextStep | None = None


def diagnose(verdict: Verdict, columns: int | None = None) -> Diagnosis:
    """Return a verdict as text, for a terminal with ``columns`` columns."""
    width = max(columns or COLUMNS, LEAST_COLUMNS)
    return Diagnosis(
        job=verdict.job,
        sentence=sentence_of(verdict, width),
        certainty=verdict.certainty,
        ranks=verdict.ranks,
        group=verdict.group,
        collective=verdict.collective,
        evidence=tuple(evidence_of(verdict, width)),
        next=verdict.next,
    )


def show_verdicts(
    verdicts: Sequence[Verdict], *, color: bool, columns: int | None = None, word: Callable[[Remedy], str] | None = None
) -> str:
    """Return each verdict as a sentence, its evidence, and the next command.

    ``word`` returns other words for that command. Lines are wrapped at ``columns``; None leaves them whole.
    """
    return "".join(shown(diagnose(one, columns), _color(one) if color else None, columns, word) for one in verdicts)


def verdicts_document(explanation: Explanation) -> dict[str, object]:
    """Return the verdicts as a JSON document."""
    return {
        "schema": 1,
        "asked": explanation.asked,
        "answered": explanation.answered,
        "verdicts": [verdict_document(verdict) for verdict in explanation.verdicts],
    }


def shown(found: Diagnosis, color: str | None, columns: int | None, word: Callable[[Remedy], str] | None = None) -> str:
    """Return the sentence in a colour, the evidence, and the next command."""
    job = f"{printable(found.job, 200)}: " if found.job else ""
    lines = [paint(line, color) for line in _broken(printable(f"{job}{found.sentence}", MAX_LINE), columns)]
    for evidence in found.evidence:
        lines += _broken(f"{INDENT}{printable(evidence, MAX_LINE)}", columns)
    if found.next is not None:
        typed = f"{printable(found.next.command, MAX_LINE)}        ({found.next.purpose.value})"
        lines.append(f"try: {typed if word is None else word(found.next.remedy)}")
    return "".join(f"{line}\n" for line in lines)


def _broken(line: str, columns: int | None) -> list[str]:
    """Wrap a line between words. Not for lines with a command, because users copy them."""
    if columns is None or len(line) <= columns:
        return [line]
    start = " " * (len(line) - len(line.lstrip()))
    behind = f"{start}{2 * INDENT}"
    width = max(columns, LEAST_COLUMNS)
    return textwrap.wrap(line, width, subsequent_indent=behind, break_long_words=False, break_on_hyphens=False)


def _color(verdict: Verdict) -> str:
    if verdict.kind is VerdictKind.BUSY:
        return "32"
    return "35" if verdict.kind in HARMLESS else "1;31"


def document_of(found: Diagnosis) -> dict[str, object]:
    """Return the JSON fields that all diagnoses share."""
    return {
        "sentence": found.sentence,
        "certainty": None if found.certainty is None else found.certainty.value,
        "job": found.job,
        "ranks": format_ranks(found.ranks) or None,
        "group": found.group,
        "collective": found.collective,
        "evidence": list(found.evidence),
        "next": None if found.next is None else found.next.command,
    }


def verdict_document(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as JSON fields."""
    return {
        "kind": verdict.kind.value,
        **document_of(diagnose(verdict)),
        "others": format_ranks(verdict.others) or None,
        "cause": None if verdict.cause is None else verdict.cause.value,
        "sequence": verdict.sequence,
        "age": None if verdict.age is None else round(verdict.age, 3),
    }


# ------------------------------------------------------------------------------------------------ lines of evidence

MAX_LINES = 12
"""Maximum number of lines about ranks in one verdict. The last line states how many ranks are omitted."""

MAX_FUNCTIONS, MAX_NAMES, MAX_TYPES = 3, 20, 60
"""Maximum functions of the user's code in one line, columns for the numbers of ranks, and characters of data types."""

MAX_DEADLOCKS, MAX_ALSO = 4, 3
"""Maximum number of ranks whose threads are listed, and maximum number of other collectives that one line names."""


def evidence_of(verdict: Verdict, columns: int = COLUMNS) -> list[str]:
    """Return the lines of evidence below the sentence of a verdict."""
    if verdict.analysis is None:
        return list(verdict.lines)
    way = shortened_sentence(verdict, columns)[1]
    lines = _Lines(verdict.analysis, way)
    notes = [Sentences(verdict.analysis).finding(note) for note in verdict.notes]
    return [*lines.about(verdict.finding, notes), *verdict.lines]


class _Lines:
    """Lines of evidence below a sentence. ``way`` states the details that the sentence omits."""

    def __init__(self, analysis: WaitAnalysis, way: Brevity) -> None:
        self.analysis = analysis
        self._brief, self._whole = Reasons(analysis, way), Reasons(analysis, WHOLE)

    def about(self, found: Finding, notes: Sequence[str]) -> list[str]:
        """Return the lines about a finding."""
        topic = found.topic
        if topic in (Topic.MISSING, Topic.NO_PARTNER, Topic.HELD):
            return self._missing(found)
        if topic is Topic.CONFLICT:
            return self._conflict(found)
        if topic is Topic.CYCLE:
            return [*self.ranks(found.ranks), *time_left(found.pending)]
        if topic in (Topic.LONELY, Topic.PEERLESS):
            pending = found.pending
            others = [n for n in pending.group.numbers if n not in found.ranks] if topic is Topic.LONELY else []
            return [*self.ranks(found.ranks, pending), *self.ranks(others, pending), *self._call(pending)]
        if topic in (Topic.DOUBTFUL, Topic.COMPLETE):
            return [*self.ranks(found.ranks, found.pending), *self._call(found.pending), *self._lacks()]
        if topic is Topic.OWN:
            behind = ["waiting for them:", *self.ranks(found.followers)] if found.followers else []
            after = ["afterwards:", *self.ranks(found.after)] if found.after else []
            return [*self._culprits(found), *behind, *after]
        if topic in (Topic.UNMOVED, Topic.SILENT):
            return [*self.ranks(found.ranks), *notes, *self._lacks()]
        return list(notes)

    def _missing(self, found: Finding) -> list[str]:
        pending = found.pending
        lines = self._culprits(found)
        if found.topic is Topic.NO_PARTNER:
            lines += self.ranks(pending.waiting, pending)
        lines += self._others(found)
        if found.topic is Topic.NO_PARTNER and pending.is_receive and has_tag(pending):
            lines.append("a finished send with another tag would not be visible: it leaves no record")
        lines += self._call(pending)
        is_made_of_stacks = found.topic is Topic.MISSING and found.certainty is Certainty.LIKELY
        return [*lines, *self._lacks()] if is_made_of_stacks else lines

    def _conflict(self, found: Finding) -> list[str]:
        pending, names = found.pending, self.analysis.names
        lines = self.ranks(pending.waiting, pending)
        finished = sorted(set(pending.finished) - set(pending.calls))
        if finished:
            lines.append(f"{names.ranks(finished)} {agreeing(finished, 'has', 'have')} finished it and continued")
        if pending.missing:
            lines.append(f"{names.described(pending.missing)} reached none of these calls")
        lines += self._others(found) if len(pending.roots) > 1 else []
        handling = [(number, self._whole.handles(number)) for number in found.ranks[:MAX_ALSO]]
        lines += [f"rank {number} {handles}" for number, handles in handling if handles]
        return [*lines, *time_left(pending)]

    def _culprits(self, found: Finding) -> list[str]:
        """Return lines about the ranks of a sentence.

        If the sentence names a single rank and shortens that rank's reason, one line states the whole reason.
        """
        ranks = found.ranks
        lines = self.ranks(ranks, found.collective, has_cause=len(ranks) == 1)
        if len(ranks) == 1 and ranks[0] not in self.analysis.moved.working:
            reason, most = self._whole.reason(ranks[0]), 1 if found.topic is Topic.HELD else MAX_LINKS
            if not self._brief.has_room(reason) or reason != self._brief.reason(ranks[0], most):
                lines.insert(1, f"{self.analysis.names.ranks(ranks)} {reason}")
        return lines

    def _others(self, found: Finding) -> list[str]:
        """Return lines about members and collectives that the sentence does not name.

        The members are silent or missing too. The collectives cannot finish before the ranks of the finding continue.
        """
        names, pending = self.analysis.names, found.pending
        lines = []
        silent = [number for number in pending.unheard if number not in found.ranks]
        if silent:
            lines.append(f"{names.ranks(silent)} did not report on the group and may also be missing")
        later = [number for number in pending.missing if number not in found.ranks]
        if later:
            lines.append(f"{names.ranks(later)} {agreeing(later, 'has', 'have')} not arrived either")
            held_up = [number for number in later if self.analysis.behind(number) is not None]
            lines += [f"rank {number} {self._whole.reason(number)}" for number in held_up[:MAX_ALSO]]
        if found.behind:
            named = ", ".join(short_name(one) for one in found.behind[:MAX_ALSO])
            more = f" and {len(found.behind) - MAX_ALSO} more" if len(found.behind) > MAX_ALSO else ""
            ranks = {number for one in found.behind for number in one.calls}
            lines.append(f"{names.ranks(ranks)} {agreeing(ranks, 'is', 'are')} also blocked in {named}{more}")
        return lines

    # -------------------------------------------------------------------------------------------------- ranks

    def ranks(
        self,
        numbers: Sequence[int],
        pending: PendingCollective | None = None,
        *,
        has_cause: bool = False,
    ) -> list[str]:
        """Return lines about the ranks; ranks with equal text share a line.

        Lines about deadlocked threads, the kernel's remarks and ended threads follow.
        """
        waits: dict[int, str] = {}
        for other in self.analysis.matched.all_pending:
            if other is not pending:
                for number in other.calls:
                    waits.setdefault(number, short_name(other))
        group = pending.group if pending is not None else None
        alike: defaultdict[_Line, dict[int, Age]] = defaultdict(dict)
        for number in numbers:
            one = self.analysis.matched.roster.get(number)
            if one is None:
                alike[_Line("never connected")][number] = Age()
            else:
                text = self._line_of(number, one, group, waits.get(number, ""), has_cause=has_cause)
                alike[text][number] = age_of(one.answer) if one.answer.frames else Age()
        rows = sorted(alike.items(), key=lambda row: (-len(row[1]), min(row[1])))
        shown = [f"{clip(format_ranks(sorted(some)), MAX_NAMES)}  {text.with_age(some)}" for text, some in rows]
        rest = sum(len(some) for _, some in rows[MAX_LINES - 1 :])
        lines = [*shown[: MAX_LINES - 1], f"and {rest} more; --json lists them"] if rest else shown
        for number in numbers[:MAX_DEADLOCKS]:
            lines += self._notes(number)
        return lines

    def _line_of(
        self, number: int, one: RankEvidence, group: ProcessGroup | None, waits_in: str, *, has_cause: bool
    ) -> _Line:
        state, is_live = one.rank.state.value, one.rank.state in LIVE_STATES
        if one.answer.kind is not Kind.VALUE and is_live:
            state = "silent" if state == "running" else state
        news = [f"{'waits' if is_live else 'was'} in {waits_in}"] if waits_in else []
        condition = self.analysis.conditions[number]
        # The library call on the stack adds nothing to the name of the collective.
        is_news = not (waits_in and condition.kind is None and not condition.is_still)
        cause = self._whole.condition(number) if is_news and not has_cause else ""
        news += [cause] if cause else []
        if one.rank.passed:
            news.append(printable(f"passed {one.rank.passed}"))
        last = last_call(one, group)
        finished = ""
        if last is not None:
            sequence = f" #{last.sequence}" if last.sequence is not None else ""
            label = f" of {group.title}" if group is not None and group.label else ""
            finished = f"last finished collective: {printable(f'{last.name}{sequence}{label}', MAX_TEXT)}"
        where = "  ".join(filter(None, (state, place_of(one.answer.frames))))
        return _Line(where, tuple(news), finished)

    def _notes(self, number: int) -> list[str]:
        condition, one = self.analysis.conditions.get(number), self.analysis.matched.roster.get(number)
        if condition is None or one is None:
            return []
        threads = condition.threads if condition.state in (State.DEADLOCK, State.FOR_ITSELF) else ()
        process = one.evidence.process if one.evidence is not None else None
        handles = self._whole.handles(number) if condition.is_loop else ""
        ended = waits_of(one, WaitKind.ENDED)[-MAX_DEADLOCKS:]
        notes = [
            process_text(process) if process is not None else "",
            *(self._whole.thread(wait.thread, wait_text(wait.does)) for wait in ended),
            handles,
        ]
        return [
            *(
                f"thread {printable(wait.thread, 60)}  {place_of(wait.frames)}     {wait_text(wait.does)}".rstrip()
                for wait in threads
            ),
            *(f"rank {number}: {note}" for note in notes if note),
        ]

    def _call(self, pending: PendingCollective) -> list[str]:
        """Return lines about the payload of a collective, its callers, differing roots, and the library's timeout."""
        roster, names = self.analysis.matched.roster, self.analysis.names
        places: defaultdict[Place, list[int]] = defaultdict(list)
        for number, call in pending.calls.items():
            # A rank may have called the collective at one place, and wait for it at another. The line about the rank
            # shows only the place of the wait.
            if call.place is not None and call.place not in roster[number].answer.frames:
                places[call.place].append(number)
        called = sorted(places.items(), key=lambda one: (-len(one[1]), one[1]))[:MAX_FUNCTIONS]
        first = pending.calls[min(pending.calls)]
        size = show_bytes(first.size) if first.size is not None else printable(first.shapes, MAX_TYPES)
        payload = ", ".join(piece for piece in (printable(first.types, MAX_TYPES), size) if piece)
        lines = [f"{printable(pending.call, 80)} exchanges {payload}"] if payload else []
        lines += [f"{names.ranks(some)} called it at {place_of([place])}" for place, some in called]
        if len(pending.roots) > 1:
            roots = [f"root {root} in {clip(format_ranks(some), 40)}" for root, some in sorted(pending.roots.items())]
            lines.append(f"their calls differ: {'; '.join(roots)}")
        return [*lines, *time_left(pending)]

    def _lacks(self) -> list[str]:
        return limitations(self.analysis.matched.roster, self.analysis.names)


@dataclass(frozen=True, slots=True)
class _Line:
    """Line about a rank: its place, what else is known, and the latest collective that it finished."""

    where: str
    news: tuple[str, ...] = ()
    last: str = ""

    def with_age(self, ages: Mapping[int, Age]) -> str:
        """Return the line with the time that the ranks have been at their place."""
        found = duration_text(list(ages.values()))
        news = [*self.news, f"unchanged for {found}" if found else "", self.last]
        phrase = "; ".join(filter(None, news))
        return f"{self.where}     {phrase}" if phrase else self.where


def place_of(frames: Sequence[Place]) -> str:
    """Return the place of a stack in the user's code: ``data.py:17 wait_for_shard < next_batch``; empty if none."""
    own = own_frames(frames) or list(frames)
    if not own:
        return ""
    functions = [printable(place.function, 60) for place in reversed(own[-MAX_FUNCTIONS:])]
    if functions[-1] == "<module>" and len(functions) > 1:
        del functions[-1]
    return f"{file_line(own[-1])} {' < '.join(functions)}"


def time_left(pending: PendingCollective) -> list[str]:
    """Return a line with the time until the library times out, if that is known."""
    seconds = pending.seconds_left
    if seconds is None:
        return []
    member = next(iter(pending.group.members.values()))
    library = printable(member.seen.backend or pending.group.library, 40)
    # NCCL and MPI are pronounced letter by letter: "an NCCL".
    article = "an" if library[:1] in "aeio" or library.lower().startswith(("nccl", "mpi")) else "a"
    what = "send or receive" if pending.has_peer else "collective"
    return [f"{article} {library} {what} of these ranks times out in {show_age(seconds)}"]


def duration_text(ages: Sequence[Age]) -> str:
    """Return how long all these ranks have been at their places, as ``at least 5 s``; empty if below a second."""
    seconds = min(map(_news, ages), default=0.0)
    if not seconds:
        return ""
    differ = show_age(max(map(_news, ages))) != show_age(seconds)
    found = show_age(seconds)
    return f"at least {found}" if differ or any(age.at_least for age in ages) else found


def _news(age: Age) -> float:
    """Return the seconds of an age; 0 if it is unknown or below SHORTEST_SECONDS."""
    return age.seconds if age.seconds is not None and age.seconds >= SHORTEST_SECONDS else 0.0
