"""The sentence of a verdict: the culprit first, at most two lines of a terminal. Pure.

A sentence that is too long is shortened in steps. First, the host of the rank is omitted. Then paths and commands are
shortened and times are omitted. Then places of intermediate waits are omitted. Last, the reason of a rank is cut.
The sentence of a verdict that is inferred from stacks contains `likely`. All wording is in the tables at the
top and in ``wait_text``.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from dbg_client.views.ages import show_age
from dbg_client.views.naming import clip
from dbg_client.views.tree import file_line, own_frames
from dbg_client.why.collective_matching import Difference, PendingCollective, difference_of, is_parting, sides
from dbg_client.why.collectives import tag_and_root
from dbg_client.why.condition import AGE_TOLD, main_wait, waits_of
from dbg_client.why.names import MAX_NAMES, agreeing, show_bytes
from dbg_client.why.process_groups import world_size
from dbg_client.why.reasons import MAX_NAME, WHOLE, Brevity, Reasons
from dbg_client.why.verdict import PATIENT_SECONDS, Certainty, Finding, Topic, Verdict, VerdictKind
from dbg_client.why.wait_analysis import place_of_call, rank_node, went_on
from dbg_client.why.wait_text import wait_text
from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.evidence import CollectiveSeen, WaitKind
from dbg_wire.records.ranks import RankState

COLUMNS = 100
"""Columns of a line if the width of the reader's terminal is unknown. A sentence has two lines."""

MAX_CALL = 120
"""Maximum characters of a call in one line."""

MAX_REASONS, MAX_SIDES = 2, 3
"""Maximum numbers for one sentence: of ranks whose wait it explains, and of different calls of one collective."""

SEVERAL: dict[VerdictKind | RankState, str] = {
    VerdictKind.DEAD: "have died or are lost",
    VerdictKind.ENDED: "have ended",
    VerdictKind.SUSPENDED: "are suspended",
    VerdictKind.DEADLOCK: "are deadlocked",
    VerdictKind.STUCK: "are stuck in C code",
    VerdictKind.WAITING: "wait",
    RankState.STOPPED: "are stopped in the debugger",
    RankState.LOST: "are lost: they are disconnected, and their processes may be alive",
    RankState.EXITED: "have died",
}
"""Text for several ranks, by their common state, or else by the kind of the verdict."""

CRASHED = "have crashed and are kept"

INFERRED = ", according to their stacks; the group and the number of the call are unknown"
UNNUMBERED = "; no rank seems to be missing, but the ranks may be in different calls of it"
ONLY_ONE = "; it is the only rank of the group, so no rank is missing"
DEVICE = "; no rank is missing, so the network or a device is blocked"

WAYS = (
    *(Brevity(level, with_place) for level in range(4) for with_place in (True, False)),
    *(Brevity(3, with_place=False, room=room) for room in range(160, 10, -6)),
)
"""Levels of brevity, the longest text first."""


def sentence_of(verdict: Verdict, columns: int = COLUMNS) -> str:
    """Return the sentence of a verdict, in two lines of ``columns`` columns if possible."""
    return shortened_sentence(verdict, columns)[0]


def shortened_sentence(verdict: Verdict, columns: int = COLUMNS) -> tuple[str, Brevity]:
    """Return the sentence of a verdict and its brevity."""
    writer, sentence, way = Sentences(verdict.analysis), "", WHOLE
    for way in WAYS:
        writer.briefer(way)
        sentence = writer.sentence(verdict)
        if fits(verdict.job, sentence, columns):
            return sentence, way
    while sentence and not fits(verdict.job, f"{sentence}…", columns):
        sentence = sentence[: min(len(sentence) - 1, 2 * columns)]
    return f"{sentence}…", way


def fits(job: str, sentence: str, columns: int = COLUMNS) -> bool:
    """Return True if the job's name and the sentence fit in two lines. A very long name is cut for this check."""
    line = f"{job[: columns // 2]}: {sentence}"
    return len(line) <= columns or len(textwrap.wrap(line, columns, subsequent_indent="    ")) <= 2


def short_name(pending: PendingCollective) -> str:
    """Return a collective with its group, as in ``all_reduce #3172 of dp_0``, then its tag or common root."""
    arguments = tag_and_root(pending)
    return printable(pending.label, MAX_CALL) + (f" ({arguments})" if arguments else "")


def since(age: float | None) -> str:
    """Return `` for 4 min 12 s``, or `` for some time`` if the age is unknown or below one second."""
    return f" for {show_age(age)}" if age is not None and age >= 1 else " for some time"


class Sentences(Reasons):
    """Sentences about the findings of one analysis, at one :class:`Brevity`."""

    def sentence(self, verdict: Verdict) -> str:
        """Return the sentence of a verdict."""
        found = verdict.finding
        return self._own(verdict.kind, found) if found.topic is Topic.OWN else self.finding(found)

    def finding(self, found: Finding) -> str:
        """Return the sentence about a finding."""
        write = _SENTENCES.get(found.topic)
        if write is not None:
            return write(self, found)
        return self._of_collective(found) if found.collective is not None else self._of_ranks(found)

    def who(self, numbers: Sequence[int]) -> str:
        """Return the names of the ranks, with the place of a single rank if there is room."""
        return self.names.described(numbers) if self._way.with_place else self.names.ranks(numbers)

    # ------------------------------------------------------------------------------------------------- collectives

    def _of_collective(self, found: Finding) -> str:
        pending, who, what = found.pending, self.who(found.ranks), _what(found.pending)
        if found.topic is Topic.LONELY:
            return f"{who} has {_likely(found)}waited in {what}; no other rank has created this group"
        if found.topic is Topic.PEERLESS:
            other = "sends" if pending.is_receive else "receives"
            return f"{who} has {_likely(found)}waited in {what}; no rank of the group {other}, and its peer is unknown"
        if found.topic is Topic.DOUBTFUL:
            name = short_name(pending)
            return f"{who} did not report on {name}, so the missing rank is unknown; {self.waiters(pending)}"
        return f"{short_name(pending)} has been in progress{since(pending.age)}: its ranks exchange data"

    def _missing(self, found: Finding) -> str:
        pending, ranks = found.pending, found.ranks
        conditions = [self.analysis.conditions[n] for n in ranks if n in self.analysis.conditions]
        if len(conditions) < len(ranks) or not all(one.is_stopped for one in conditions):
            have = f"{agreeing(ranks, 'has', 'have')} {_likely(found)}not reached {short_name(pending)}"
            return f"{self.who(ranks)} {have}{self.why(ranks, pending)}; {self.waiters(pending)}"
        crashed = all(one.kind is VerdictKind.DEAD for one in conditions)
        stand = CRASHED if crashed else SEVERAL[RankState.STOPPED]
        stand = self.condition(ranks[0]) if len(ranks) == 1 else stand
        count = len(pending.calls)
        likely = _likely(found)
        waiting = f"1 rank has {likely}waited" if count == 1 else f"{count} ranks have {likely}waited"
        return f"{self.who(ranks)} {stand}; {waiting} for {agreeing(ranks, 'it', 'them')} in {_what(pending)}"

    def waiters(self, pending: PendingCollective) -> str:
        """Return the ranks that wait in a collective, and for how long."""
        if len(pending.calls) == 1:
            return f"rank {pending.waiting[0]} has waited{since(pending.age)}"
        return f"{len(pending.calls)} of {len(pending.group.numbers)} ranks have waited{since(pending.age)}"

    def why(self, culprits: Sequence[int], pending: PendingCollective | None) -> str:
        """Return why these ranks have not arrived, after a colon; empty if nothing is known."""
        reasons: defaultdict[tuple[str, bool], list[int]] = defaultdict(list)
        for number in culprits:
            reasons[self._reason(number, pending)].append(number)
        known = sorted(reasons.items(), key=lambda reason: (-len(reason[1]), reason[1]))
        if len(known) == 1:
            ((text, is_its), _) = known[0]
            it = "" if is_its else "it " if len(culprits) == 1 else "each "
            return f": {it}{self._cut(text)}" if text else ""
        known = [(reason, numbers) for reason, numbers in known if reason[0]]
        phrase = [
            f"each of {self.names.ranks(numbers)} {text}" if len(numbers) > 1 else f"{self.names.ranks(numbers)} {text}"
            for (text, _), numbers in known[:MAX_REASONS]
        ]
        left = sum(len(numbers) for _, numbers in known[MAX_REASONS:])
        text = "; ".join([*phrase, *([f"{left} more for other reasons"] if left else [])])
        return f": {self._cut(text)}" if text else ""

    def _reason(self, number: int, pending: PendingCollective | None) -> tuple[str, bool]:
        """Return why a rank has not arrived, and True if the text is about a thread and begins with ``its``."""
        analysis, text = self.analysis, self.with_error(number)
        condition = analysis.conditions.get(number)
        if condition is None or condition.is_still:
            return text, False
        one, moved = analysis.matched.roster[number], analysis.moved
        if number not in moved.working:
            ended = waits_of(one, WaitKind.ENDED)
            if text or not ended:
                return text or self._runs(number), False
            return f"its {self.thread(ended[-1].thread, wait_text(ended[-1].does))}", True
        moves = ", advancing" if number in moved.moved | moved.data | moved.within else ""
        age = pending.age if pending is not None else None
        hope = "; no hang so far" if moves or (age or 0.0) < PATIENT_SECONDS else ""
        return f"{self._work(number)}{moves}{hope}", False

    def _runs(self, number: int) -> str:
        main = main_wait(self.analysis.matched.roster[number])
        return wait_text(main.does) if main is not None and main.kind is WaitKind.PYTHON else ""

    def _work(self, number: int) -> str:
        analysis = self.analysis
        main = main_wait(analysis.matched.roster[number])
        does = main.does if main is not None and main.kind is WaitKind.NATIVE else None
        computes = number in analysis.moved.computing | analysis.moved.data
        if computes and does is not None and does.function and does.place is not None:
            return f"computes in {printable(does.function, 60)} ({file_line(does.place)})"
        text, own = self.condition(number), own_frames(analysis.matched.roster[number].answer.frames)
        if text or not own:
            return text or "works"
        return f"works in {file_line(own[-1])} {printable(own[-1].function, MAX_NAME)}"

    # ------------------------------------------------------------------------- more root causes in collectives

    def _no_partner(self, found: Finding) -> str:
        pending, waiter = found.pending, found.pending.waiting[0]
        elsewhere = self.analysis.pending_of(found.ranks[0])
        has_place = pending.group.label or pending.sequence is not None
        place = f" in {short_name(pending)}" if has_place else ""
        why = f": it is in {short_name(elsewhere)}" if elsewhere is not None else self.why(found.ranks, pending)
        limitations = _lacking_half(pending, _likely(found))
        return f"{self.who(found.ranks)} {limitations}{why}; rank {waiter} has waited{place}{since(pending.age)}"

    def _held(self, found: Finding) -> str:
        ranks, likely = found.ranks, _likely(found)
        texts = {self.reason(number, 1) for number in ranks}
        holder, them = self.analysis.last_behind(ranks[0]), agreeing(ranks, "it", "them")
        end = f"rank {holder} has waited for {them} in {_what(found.pending)}: a deadlock"
        if len(texts) > 1:
            return f"{self.who(ranks)} {likely}wait for other ranks: {self.reasons(ranks)}; {end}"
        return f"{'each of ' * (len(ranks) > 1)}{self.who(ranks)} {likely}{self._cut(texts.pop())}; {end}"

    def reasons(self, numbers: Sequence[int]) -> str:
        """Return the reason of each rank's wait."""
        return self._cut("; ".join(f"rank {number} {self.reason(number, 1)}" for number in numbers))

    def _conflict(self, found: Finding) -> str:
        pending, difference = found.pending, difference_of(found.pending)
        called = sides(pending)
        (first, others), (second, numbers), *more = called
        there, here = (self._place_of(pending, some) for some in (others, numbers))
        if there == here or not (is_parting(called) or (there and here)):
            there = here = ""
        if is_parting(called):
            return self._parting(found, {others[0]: there, numbers[0]: here})
        usual, what = _side(first, difference), _side(second, difference)
        who, likely, group = self.who(numbers), _likely(found), _group(pending)
        rest = "".join(f", {self.names.ranks(some)} {_side(one, difference)}" for one, some in more[: MAX_SIDES - 2])
        most, end = self.names.ranks(others), f"{there}{rest}{self._ago(pending)}"
        if difference is Difference.NAME and went_on(self.analysis, pending, first.name):
            behind = f"{agreeing(numbers, 'is', 'are')} {likely}one {usual}{group} behind"
            went = f"{agreeing(numbers, 'it', 'they')} continued with {what}{here}"
            return f"{who} {behind}: {went}, where {most} called #{pending.sequence}{end}"
        besides = self._besides(numbers)
        if difference is Difference.NAME:
            number = f" as collective #{pending.sequence}" if pending.sequence is not None else ""
            return f"{who} {likely}called {what}{here}{number}{group}{besides}, where {most} called {usual}{end}"
        to = f"{printable(pending.call, 80)}{group}"
        return f"{who} {likely}passed {what} to {to}{here}{besides}, where {most} passed {usual}{end}"

    def _parting(self, found: Finding, places: Mapping[int, str]) -> str:
        """Return a sentence that blames no rank, because each call was made by equally many ranks."""
        pending, difference = found.pending, difference_of(found.pending)
        called = sorted(sides(pending), key=lambda side: side[1])[:MAX_SIDES]
        verbs, what = ("passes", "pass"), printable(pending.call, 80)
        if difference is Difference.NAME:
            number = f" #{pending.sequence}" if pending.sequence is not None else ""
            verbs, what = ("calls", "call"), f"collective{number}"
        phrase: list[str] = []
        for call, numbers in called:
            verb = "" if phrase else f" {agreeing(numbers, *verbs)}"
            does = f"{_side(call, difference)}{places.get(numbers[0], '')}{self._besides(numbers)}"
            phrase.append(f"{self.names.ranks(numbers)}{verb} {does}")
        who = f"ranks {' and '.join(clip(format_ranks(numbers), MAX_NAMES) for _, numbers in called)}"
        at = f"{what}{_group(pending)}{self._ago(pending)}"
        return f"{who} {_likely(found)}diverged at {at}: {self._cut(', '.join(phrase))}"

    def _ago(self, pending: PendingCollective) -> str:
        is_reported = self.has_ago and pending.age is not None and pending.age >= 1
        return f" {show_age(pending.age or 0.0)} ago" if is_reported else ""

    def _place_of(self, pending: PendingCollective, numbers: Sequence[int]) -> str:
        place = place_of_call(self.analysis, pending, numbers)
        return f" ({printable(place.function, MAX_NAME)} {file_line(place)})" if place is not None else ""

    def _besides(self, numbers: Sequence[int]) -> str:
        """Return the error that a single rank handles while it calls a different collective than the others."""
        handles = self.handles(numbers[0]) if len(numbers) == 1 and self._way.level <= 1 else ""
        return f" while it {handles}" if handles else ""

    def _cycle(self, found: Finding) -> str:
        all_pending, likely = found.cycle, _likely(found)
        first, count = all_pending[0], len(all_pending)
        end = since(max((one.age or 0.0 for one in all_pending), default=None)) + _cycles_end(all_pending)
        steps = {
            (one.name, (one.waiting[0] - one.missing[0]) % count) for one in all_pending if one.has_peer and one.missing
        }
        if count > MAX_SIDES and steps in ({(first.name, 1)}, {(first.name, count - 1)}):
            numbers = sorted(number for one in all_pending for number in one.waiting)
            side = "previous rank" if (first.name, 1) in steps else "next rank"
            return f"{self.names.ranks(numbers)} have each {likely}waited in {first.name} for the {side}{end}"
        links = []
        for at, one in enumerate(all_pending[:MAX_SIDES]):
            whom = self.names.ranks(_awaited(all_pending, at))
            wait = agreeing(one.calls, "has waited", "have waited")
            links.append(f"{'which ' if at else likely}{wait} in {short_name(one)} for {whom}")
        if count > MAX_SIDES:
            links.append(f"and so on through {count} collectives")
        return f"{self.names.ranks(first.waiting)} {', '.join(links)}{end}"

    def _complete(self, found: Finding) -> str:
        pending, ranks = found.pending, found.ranks
        who = {1: self.names.described(ranks), 2: f"both ranks {ranks[0]}, {ranks[-1]}"}
        end = ONLY_ONE if len(ranks) == 1 else DEVICE
        if pending.group.is_inferred:
            end = INFERRED
        elif pending.sequence is None and not pending.has_peer:
            end = UNNUMBERED
        subject = who.get(len(ranks), f"all {len(ranks)} ranks")
        return f"{subject} {agreeing(ranks, 'has', 'have')} waited in {_what(pending)}{end}"

    # ---------------------------------------------------------------------------------------- ranks by themselves

    def _of_ranks(self, found: Finding) -> str:
        topic, ranks, who = found.topic, found.ranks, self.who(found.ranks)
        if topic is Topic.NOBODY:
            return "no rank has an agent that could answer"
        if topic is Topic.NO_DUMP:
            return f"{who} left no dump, so what {agreeing(ranks, 'it', 'they')} did is unknown"
        if topic is Topic.ALL_FINISHED:
            none = f"apparently {agreeing(ranks, 'it', 'they')} waited for something else"
            return f"in the dumps of {who} all collectives are finished, so {none}"
        roster = self.analysis.matched.roster
        if topic is Topic.ABSENT:
            of = world_size(roster) or len(roster)
            return f"{who} {agreeing(ranks, 'has', 'have')} never connected; {len(roster)} of {of} ranks have"
        silent = f"{len(ranks)} of {len(roster)} ranks did not answer"
        return f"{silent}, so their activity is unknown: {who}"

    def _own(self, kind: VerdictKind, found: Finding) -> str:
        analysis, numbers, who, likely = self.analysis, found.ranks, self.who(found.ranks), _likely(found)
        if len(numbers) == 1:
            return f"{who} {likely}{self._cut(self.with_error(numbers[0]))}{self._how_long(numbers[0])}"
        states = {analysis.matched.roster[number].rank.state for number in numbers}
        do = SEVERAL.get(next(iter(states))) if len(states) == 1 and kind is not VerdictKind.ENDED else None
        # A rank that is kept after a crash is also in the state STOPPED.
        do = CRASHED if kind is VerdictKind.DEAD and states == {RankState.STOPPED} else do
        if do is not None and states != {RankState.EXITED}:
            return f"{who} {do}"
        # Level 1 omits times: ranks that die of one cause die at slightly different times, so texts would differ.
        brief = Sentences(analysis, self._way._replace(level=max(1, self._way.level)))
        texts = {brief.with_error(number) for number in numbers}
        if len(texts) == 1:
            return f"each of {who} {likely}{self._cut(texts.pop())}"
        return f"{who} {likely}{do or SEVERAL[kind]}{self.why(numbers, None)}"

    def _how_long(self, number: int) -> str:
        condition, rank = self.analysis.conditions[number], self.analysis.matched.roster[number].rank
        if condition.age is None or condition.age < 1 or rank.state not in (RankState.RUNNING, RankState.STOPPED):
            return ""
        if condition.state in AGE_TOLD or condition.is_loop:
            return ""
        # After a clause such as "which sleeps", a comma would attach the time to the clause.
        does = condition.does
        comma = ";" if self.analysis.following(rank_node(number)) or (does is not None and does.processes) else ","
        return f"{comma} unchanged for {show_age(condition.age)}"

    def _unmoved(self, found: Finding) -> str:
        numbers, moved, roster = found.ranks, self.analysis.moved, self.analysis.matched.roster
        if not numbers and all(one.rank.state is RankState.EXITED for one in roster.values()):
            return f"the job has ended: {len(roster)} of its ranks have exited"
        if not numbers:
            return "no rank has reported anything, so it is unknown whether the job hangs"
        stood = min((roster[number].answer.age or 0.0 for number in numbers), default=0.0)
        looked = f" in {moved.seconds:.1f} s" if moved.seconds else ""
        looked = f" in {show_age(stood)}" if moved.seconds and stood > moved.seconds else looked
        be = agreeing(numbers, "has", "have")
        return f"{self.who(numbers)} {be} made no visible progress{looked}; the reason is unknown"

    def _busy(self, found: Finding) -> str:
        moved, of = self.analysis.moved, len(self.analysis.matched.roster)
        ranks = len(moved.collectives or moved.stacks)
        count = "the only rank" if of == 1 else f"all {of} ranks" if ranks == of else f"{ranks} of {of} ranks"
        what = f"{count} made progress in {'collectives' if moved.collectives else 'the code'}"
        return f"the job is busy: in {moved.seconds:.1f} s {what}"


_SENTENCES: Mapping[Topic, Callable[[Sentences, Finding], str]] = {
    Topic.MISSING: Sentences._missing,
    Topic.NO_PARTNER: Sentences._no_partner,
    Topic.HELD: Sentences._held,
    Topic.CONFLICT: Sentences._conflict,
    Topic.CYCLE: Sentences._cycle,
    Topic.COMPLETE: Sentences._complete,
    Topic.UNMOVED: Sentences._unmoved,
    Topic.BUSY: Sentences._busy,
}
"""Methods that return the sentence of a finding, by its topic."""


def _likely(found: Finding) -> str:
    return "likely " if found.certainty is Certainty.LIKELY else ""


def _what(pending: PendingCollective) -> str:
    return f"{short_name(pending)}{since(pending.age)}"


def _group(pending: PendingCollective) -> str:
    return f" of {printable(pending.group.title, 100)}" if pending.group.label else ""


def has_tag(pending: PendingCollective) -> bool:
    """Return True if the tag of a send or receive is known."""
    return any(call.tag is not None and call.tag >= 0 for call in pending.calls.values())


def _lacking_half(pending: PendingCollective, likely: str) -> str:
    """Return which call the peer of a send or receive has not made. Calls with another tag do not match."""
    ((waiter, call),) = pending.calls.items()
    half = "send" if pending.is_receive else "receive"
    if has_tag(pending):
        return f"{likely}has no {half} with tag {call.tag} for rank {waiter}"
    if call.tag is None and call.timeout is None:
        # No library has recorded the call, and its tag can't be read.
        return f"is {likely}not in a {half} for rank {waiter}"
    return (
        f"has {likely}not sent to rank {waiter}"
        if pending.is_receive
        else f"{likely}does not receive from rank {waiter}"
    )


def _side(call: CollectiveSeen, difference: Difference | None) -> str:
    """Return the name of a call, or the argument in which it differs from the other calls."""
    if difference is Difference.ROOT:
        return f"root {call.root}"
    if difference is not Difference.DATA:
        return printable(call.name, MAX_CALL) or "another collective"
    size = [show_bytes(call.size)] if call.size is not None else []
    types = ", ".join(filter(None, [call.types[:60], *size]))
    return printable(" ".join(filter(None, [types, call.shapes[:80]])), MAX_CALL)


def _awaited(all_pending: Sequence[PendingCollective], index: int) -> list[int]:
    following, here = all_pending[(index + 1) % len(all_pending)], all_pending[index]
    return [number for number in here.missing if number in following.calls] or list(here.missing)


def _cycles_end(all_pending: Sequence[PendingCollective]) -> str:
    if all(pending.has_peer for pending in all_pending):
        is_sent = not all(one.is_receive for one in all_pending)
        return ": no send has a matching receive" if is_sent else ": none of them sends"
    # Calls have an order only within one group. With two groups, a rank may never call one of the two collectives.
    return ": the ranks call them in different orders" if len({id(one.group) for one in all_pending}) == 1 else ""
