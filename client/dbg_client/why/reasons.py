"""Reason why one rank does not continue, and the chain of waits that follows from it, as text. Pure."""

from __future__ import annotations

import signal
from typing import NamedTuple

from dbg_client.views.ages import show_age
from dbg_client.views.tree import file_line, own_frames
from dbg_client.why.condition import RankCondition, State, waits_of
from dbg_client.why.names import NamedRanks
from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.verdict import VerdictKind
from dbg_client.why.wait_analysis import Node, NodeKind, WaitAnalysis, rank_node
from dbg_client.why.wait_text import NO_RANKS, Ranks, wait_text
from dbg_wire.errors import printable
from dbg_wire.libraries import collective_of
from dbg_wire.records.evidence import Activity, Relation, Target, WaitKind
from dbg_wire.records.ranks import DIED, WITHOUT_TRACEBACK, EndKind, RankInfo

MAX_TEXT, MAX_NAME = 300, 40
"""Maximum number of characters of a text from a rank in one line, and of a name."""

MAX_LINKS = 3
"""Maximum number of waits of a chain in a sentence. The evidence of the awaited ranks shows further waits."""

MAX_THREADS = 4
"""Maximum number of threads of a deadlock in a sentence."""

_FROM_THREADS = frozenset(
    {Activity.QUEUE_GET, Activity.QUEUE_PUT, Activity.QUEUE_JOIN, Activity.CONDITION, Activity.EVENT}
)
"""Waits that another thread of the process usually ends."""

STATES: dict[State, str] = {
    State.EXITED: "{end}",
    State.LOST: "is lost: it has been disconnected{since}, and its process may be alive",
    State.CRASHED: "has crashed{error}{at} and is kept",
    State.STOPPED: "is stopped in the debugger{place}",
    State.HELD: "is held{place} while other ranks are in the debugger",
    State.SUSPENDED: "has been suspended{by}{so_long}",
    State.STUCK: "has been stuck in C code{so_long}{caller}",
    State.COMPUTES: "has been computing or busy-waiting in C code{so_long}{caller}",
    State.UNHEARD: "has been silent{so_long}: its interpreter is stuck in C code, or its process is suspended",
    State.WAITS: "{wait}",
    State.DEADLOCK: "is deadlocked: {cycle}",
    State.FOR_ITSELF: "{wait}{itself}",
    State.RUNS: "",
}
"""Text that follows the name of a rank, or the word ``it``, by the state of the rank."""


class Brevity(NamedTuple):
    """Amount of detail that a sentence omits.

    From ``level`` 1 on, names are shortened and times omitted. From 2 on, the commands of processes and the places of
    intermediate waits are omitted, and from 3 on the first wait of a chain of three. ``with_place`` is False if the
    host of a rank is omitted. ``room`` is the maximum number of characters of a rank's reason.
    """

    level: int = 0
    with_place: bool = True
    room: int = 1000


WHOLE = Brevity()


class Reasons:
    """Texts for the reasons why ranks do not continue, at one :class:`Brevity`."""

    def __init__(self, analysis: WaitAnalysis | None, way: Brevity = WHOLE) -> None:
        self._analysis = analysis
        self._way = way
        self._known: dict[tuple[int, int], str] = {}
        """Cached reasons, by rank and maximum number of waits."""

    def briefer(self, way: Brevity) -> None:
        """Set the brevity. Cached reasons of the same level are kept."""
        if way.level != self._way.level:
            self._known.clear()
        self._way = way

    @property
    def is_long(self) -> bool:
        """Whether there is room for times."""
        return self._way.level == 0

    @property
    def has_ago(self) -> bool:
        """Whether the sentence states how long ago ranks diverged.

        At level 1 there is no room for this, because the sentence states the error that a rank handles. Level 2 omits
        that error, so there is room again.
        """
        return self._way.level in (0, 2)

    @property
    def analysis(self) -> WaitAnalysis:
        """Analysis of the run. Raises ValueError if there is none: some findings are not about ranks."""
        if self._analysis is None:
            raise ValueError
        return self._analysis

    @property
    def names(self) -> NamedRanks:
        """Names of the ranks. Without an analysis, as for dump files, these are only numbers."""
        return self._analysis.names if self._analysis is not None else NamedRanks(("", ""), {}, several_jobs=False)

    def has_room(self, text: str) -> bool:
        """Return True if a sentence has room for the whole text."""
        return len(text) <= self._way.room

    def _cut(self, text: str) -> str:
        """Cut a text between words to the available room."""
        if self.has_room(text):
            return text
        shortened = text[: self._way.room].rpartition(" ")[0] or text[: self._way.room]
        return f"{shortened.rstrip(' ,;:')}…"

    def with_error(self, number: int) -> str:
        """Return the error or signal that a rank's main thread handles, followed by the reason of the rank."""
        text, condition, handles = self.reason(number), self.analysis.conditions.get(number), self.handles(number)
        if condition is None or not handles or condition.is_loop or condition.is_still:
            return text
        return f"{handles}, and {text}" if text else handles

    def handles(self, number: int) -> str:
        """Return the exception or signal that a rank's main thread handles, if any."""
        one = self.analysis.matched.roster.get(number)
        handled = waits_of(one, WaitKind.HANDLED) if one is not None else []
        return wait_text(handled[0].does) if handled else ""

    def reason(self, number: int, most: int = MAX_LINKS) -> str:
        """Return the reason of a rank with its chain of waits: ``waits for the end of thread pump, which …``."""
        if (number, most) not in self._known:
            self._known[number, most] = self._reason_of(number, most)
        return self._known[number, most]

    def _reason_of(self, number: int, most: int) -> str:
        analysis = self.analysis
        condition = analysis.conditions.get(number)
        if condition is None:
            return "has never connected"
        links = [("", self.condition(number))]
        node = rank_node(number)
        while links[0][1] and condition.kind is not VerdictKind.DEADLOCK and len(links) < most:
            following = analysis.following(node)
            texts = list(dict.fromkeys(map(self._does, following)))
            if not texts or "" in texts:
                break
            links.append(("" if len(following) == 1 else "each of " if len(texts) == 1 else "one of ", texts[0]))
            node = following[0]
            if node.kind is NodeKind.RANK:
                # The chain ends at a rank, because another verdict reports the cause of that rank's wait.
                break
        if self._way.level >= 3 and len(links) > 2 and not links[1][0]:
            # The last wait of the chain is the most informative one.
            del links[0]
        if len(links) == 1 and condition.does is not None and condition.does.what in _FROM_THREADS:
            # The rank may be waiting for a thread that has ended.
            ended = waits_of(analysis.matched.roster[number], WaitKind.ENDED)
            if ended:
                thread = self.thread(ended[-1].thread, wait_text(ended[-1].does, brief=min(self._way.level, 2)))
                return f"{links[0][1]}; its {thread}"
        return ", ".join([links[0][1], *(f"{several}which {text}" for several, text in links[1:])])

    def _brief(self, node: Node) -> int:
        """Return the level for the text of a wait. The place of an intermediate wait is the least informative part."""
        return 3 if self._way.level >= 2 and self.analysis.following(node) else min(self._way.level, 2)

    def _does(self, node: Node) -> str:
        analysis, level = self.analysis, self._way.level
        if node.kind is NodeKind.RANK:
            pending = analysis.pending_of(node.owner)
            if pending is not None:
                return f"is in {printable(pending.label, MAX_TEXT)}"
            return self.condition(node.owner) if node.owner in analysis.conditions else ""
        doer = analysis.doers.get(node)
        if doer is None:
            return ""
        text = wait_text(doer.does, brief=self._brief(node)) if doer.does is not None else ""
        if doer.one is None or doer.condition is None:
            return text
        text = self._state(doer.one, doer.condition) or text
        own, at = own_frames(doer.one.answer.frames), doer.does.place if doer.does is not None else None
        if not text or not own or doer.condition.is_still or (at is not None and at.line == own[-1].line) or level >= 3:
            return text
        function = printable(own[-1].function, MAX_NAME)
        return f"in {file_line(own[-1])} {function} {text}"

    def condition(self, number: int) -> str:
        """Return the condition of a rank, as in ``has been suspended (SIGSTOP) for 12 s``; empty if it just runs."""
        analysis = self.analysis
        condition, one = analysis.conditions[number], analysis.matched.roster[number]
        holder = analysis.behind(number)
        ranks = {analysis.matched.roster[holder].rank.pid: holder} if holder is not None else NO_RANKS
        return self._state(one, condition, ranks, number)

    def _state(
        self, one: RankEvidence, condition: RankCondition, ranks: Ranks = NO_RANKS, number: int | None = None
    ) -> str:
        brief = self._brief(rank_node(number)) if number is not None else min(self._way.level, 2)
        rank, age = one.rank, condition.age
        own = own_frames(one.answer.frames)
        process = one.evidence.process if one.evidence is not None else None
        tracer = process.tracer if process is not None else None
        by = f" ({printable(tracer.name or tracer.command, MAX_NAME)} (pid {tracer.pid}))" if tracer is not None else ""
        template = STATES[condition.state]
        return template.format(
            end=end_text(one, age if self.is_long else None) if condition.state is State.EXITED else "",
            since=f" for {show_age(age)}" if age is not None else "",
            error=f" ({printable(rank.halt.error, MAX_TEXT)})" if rank.halt.error else "",
            at=f" at {file_line(rank.where)}" if rank.where is not None else "",
            place=f" ({file_line(rank.where)})" if rank.where is not None else "",
            by=by or " (SIGSTOP)" * (process is not None),
            so_long=f" for {show_age(age)}" if age is not None else "",
            caller=f" ({printable(own[-1].function, MAX_NAME)}, {file_line(own[-1])})" if own else "",
            wait=wait_text(condition.does, ranks, brief=brief) if condition.does is not None else "",
            cycle=self.cycle_of(condition) if condition.state is State.DEADLOCK else "",
            itself=self._itself(number) if condition.state is State.FOR_ITSELF and number is not None else "",
        )

    def _itself(self, number: int) -> str:
        """Return how a rank waits for itself: through a process that waits for it, or directly."""
        analysis = self.analysis
        process = next((node for node in analysis.following(rank_node(number)) if node.kind is NodeKind.PROCESS), None)
        if process is None:
            does = analysis.conditions[number].does
            is_reported = does is not None and any(one.relation is Relation.ITSELF for one in does.processes)
            return "" if is_reported else ", and therefore for itself"
        does = analysis.doers[process].does if process in analysis.doers else None
        if does is None or does.target is not Target.FULL_PIPE:
            return ", which waits for it in turn"
        pids = {analysis.matched.roster[number].rank.pid: number}
        return f", which {wait_text(does, pids, brief=min(self._way.level, 2))}"

    def cycle_of(self, condition: RankCondition) -> str:
        """Return ``threads MainThread and pump wait for each other``."""
        threads = condition.threads
        if len(threads) == 1:
            return self.thread(threads[0].thread, wait_text(threads[0].does, brief=min(self._way.level, 2)))
        names = [printable(one.thread, MAX_NAME) for one in threads[:MAX_THREADS]]
        more = " and others" if len(threads) > MAX_THREADS else ""
        return f"threads {', '.join(names[:-1])} and {names[-1]}{more} wait for each other"

    @staticmethod
    def thread(name: str, does: str) -> str:
        """Return ``thread pump ended with OSError (data.py:7)``."""
        return f"thread {printable(name, MAX_NAME)} {does}"


def end_text(one: RankEvidence, since: float | None) -> str:
    """Return how a rank has ended."""
    return _aborted(one, since) or f"{_how_ended(one.rank, since)}{_last_seen(one)}"


def _how_ended(rank: RankInfo, since: float | None) -> str:
    end, ago = rank.end, f" {show_age(since)} ago" if since is not None else ""
    if end.kind is EndKind.FINALIZES:
        return f"ended its program{ago} and is in MPI_Finalize, which waits for all ranks"
    if end.is_silent:
        return f"ended by itself{ago} with status {end.exit}, {WITHOUT_TRACEBACK}"
    if end.is_unexplained:
        return f"ended without notice{ago}: os._exit, or a kill"
    how = end.sentence
    error = f" ({printable(end.error, MAX_TEXT)})" if end.error else ""
    comma = "," if ago and how[-1:].isdecimal() else ""
    note = f"; {printable(end.note, MAX_TEXT)}" if end.note else ""
    return f"{how}{error}{comma}{ago}{note}"


def _aborted(one: RankEvidence, since: float | None) -> str:
    """Return the text for a process that was aborted by its library; else empty.

    gloo, for example, aborts a process that receives data of an unexpected size.
    """
    name = collective_of(one.answer.frames)
    if one.rank.exit != -signal.SIGABRT or not name:
        return ""
    own = own_frames(one.answer.frames)
    place = f" ({printable(own[-1].function, MAX_NAME)} {file_line(own[-1])})" if own else ""
    ago = f" {show_age(since)} ago" if since is not None else ""
    return f"was aborted by its library (SIGABRT) in {name}{place}{ago}; see its output"


def _last_seen(one: RankEvidence) -> str:
    """Return where a rank was last seen if it ended without a goodbye message; empty if unknown."""
    own = own_frames(one.answer.frames)
    if not own or one.rank.reason != DIED:
        return ""
    # If a signal ended the process, the sentence also describes the signal, so there is no room for the function.
    function = "" if (one.rank.exit or 0) < 0 else f" {printable(own[-1].function, MAX_NAME)}"
    return f"; last seen in {file_line(own[-1])}{function}"
