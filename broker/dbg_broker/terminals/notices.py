"""Rate-limited notices: what one terminal does at a rank is told to the others there, and texts of log points. Pure.

What there is no token for is counted, and told in sum.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from dbg_broker.quotas import TokenBucket
from dbg_wire.errors import printable
from dbg_wire.messages import Action, Question
from dbg_wire.records.beside import CommandLine
from dbg_wire.records.breakpoints import BreakpointsWish, BreakpointWish, LineOfFile
from dbg_wire.records.inspection import Inspection, PartsQuestion, Sight

MAX_SHOWN = 80
"""Characters of a command or an expression that others are shown, so that a sentence fits into two lines."""

MAX_PLACES = 3
"""Breakpoints that a sentence names."""

TOLD_AT_ONCE = 4
"""Actions of one terminal that another is told at once, each by itself."""

SECONDS_FOR_ONE = 2.0
"""Seconds after which one more is told: a sentence is read in that time."""

MAX_DOERS = 8
"""Paces that are kept apart at one terminal that looks on; the actions of all further terminals share one."""

_ENDING = frozenset({"c", "cont", "continue", "q", "quit", "exit"})
"""Commands of pdb by which a stop ends."""

_OTHERS = (-1, False)
"""All terminals beyond MAX_DOERS; connections count from 1."""

MAX_A_SECOND = 2000
"""Texts that all clients together are sent in a second: three of each of 512 ranks, in some 4 % of the loop's time."""

MAX_TEXT = 2000
"""Characters of a text that clients are sent."""

MAX_JOBS = 64
"""Paces that are kept apart; the texts of all further jobs share one."""

_OTHER_JOBS = ""
"""All jobs beyond MAX_JOBS; a job's name is never empty."""


class VisibleAction(NamedTuple):
    """Something done at a rank: what, without who did it, and whether the stop ends by it."""

    text: str
    ends_stop: bool = False


def visible_action(question: Question) -> VisibleAction | None:
    """Return what a question does at a rank; None for one that only looks, and for one that no rank would read."""
    if question.withdrawn:
        return None
    return _PLAIN.get(question.action) or _of_what_is_asked(question)


_PLAIN = {
    Action.CONTINUE: VisibleAction("let it go on", ends_stop=True),
    Action.RELEASE: VisibleAction("let it go on", ends_stop=True),
    Action.KILL: VisibleAction("killed it", ends_stop=True),
    Action.INTERRUPT: VisibleAction("broke in"),
}


def _of_what_is_asked(question: Question) -> VisibleAction | None:
    action, text, asked = question.action, question.text, question.inquiry
    if action is Action.EVAL:
        return None if isinstance(asked, PartsQuestion) else VisibleAction(f"asked {_quoted(text)}")
    if action is Action.COMMAND:
        return VisibleAction(f"ran {_quoted(text)}", ends_stop=text.strip() in _ENDING)
    if action is Action.EXEC and isinstance(asked, CommandLine):
        return VisibleAction(f"ran {_quoted(shlex.join(asked.words))} beside it")
    if action is Action.INSPECT and isinstance(asked, Inspection):
        return _of_inspection(asked)
    return _of_breakpoints(asked) if action is Action.BREAKPOINTS and isinstance(asked, BreakpointsWish) else None


def _of_inspection(asked: Inspection) -> VisibleAction | None:
    if asked.sight is Sight.ASSIGN:
        return VisibleAction(f"set {_quoted(asked.name)} to {_quoted(asked.text)}")
    if asked.sight is Sight.VALUE and asked.runs:
        return VisibleAction(f"ran {_quoted(asked.text)}")
    return None


def _of_breakpoints(wish: BreakpointsWish) -> VisibleAction | None:
    # An IDE clears the breakpoints of a file, and sets them anew with the one that its user has added.
    if wish.set:
        return VisibleAction(f"set {_breakpoints(wish.set)}")
    return VisibleAction(f"cleared {_breakpoints(wish.clear)}") if wish.clear else None


def _breakpoints(places: Sequence[BreakpointWish | LineOfFile]) -> str:
    named = [printable(f"{one.file.rpartition('/')[2]}:{one.line}", MAX_SHOWN) for one in places[:MAX_PLACES]]
    more = f" and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
    return f"{'a breakpoint' if len(places) == 1 else 'breakpoints'} at {', '.join(named)}{more}"


def _quoted(text: str) -> str:
    first, line_feed, _ = text.strip().partition("\n")
    return f"`{printable(first, MAX_SHOWN)}{' …' if line_feed else ''}`"


class NoticePace:
    """What of some actions is told: TOLD_AT_ONCE, then one each SECONDS_FOR_ONE, with the number of those before it."""

    def __init__(self, now: float) -> None:
        self._bucket = TokenBucket(now, 1 / SECONDS_FOR_ONE, TOLD_AT_ONCE)
        self._counted = 0
        self._last = ""

    def may_tell(self, now: float) -> bool:
        """Take one action off the pace, and tell whether it is to be told now and by itself."""
        return not self._counted and self._bucket.try_spend(1, now)

    def count(self, sentence: str, now: float) -> float | None:
        """Count an action that is not told; return after how many seconds to call :meth:`more`, None if that is due."""
        self._counted, self._last = self._counted + 1, sentence
        return self._bucket.seconds_until(1, now) if self._counted == 1 else None

    def more(self, now: float) -> str | None:
        """Return a sentence for the actions that were counted; None if there are none."""
        counted, last = self._counted, self._last
        self._bucket.spend(min(1, self._bucket.tokens(now)), now)
        self._counted, self._last = 0, ""
        return f"{last}, and {counted - 1} more before that" if counted > 1 else last or None

    def is_rested(self, now: float) -> bool:
        """Tell whether it is as a new one."""
        return not self._counted and self._bucket.is_full(now)


class NoticePaces:
    """The paces of those who do something at one rank, as kept for one terminal that looks on there.

    Deeds that end a stop have a pace of their own: what is told of the others must not hide who has ended it. The
    length is the number of paces, MAX_DOERS and one for all others.
    """

    def __init__(self, key: str) -> None:
        """Begin at the rank of this key."""
        self.key = key
        self._paces: dict[tuple[int, bool], NoticePace] = {}

    def __len__(self) -> int:
        return len(self._paces)

    def of(self, number: int, action: VisibleAction, now: float) -> NoticePace:
        """Return the pace for an action of the terminal with this number."""
        doer = (number, action.ends_stop)
        if doer not in self._paces:
            for rested in [known for known, pace in self._paces.items() if pace.is_rested(now)]:
                del self._paces[rested]
            doer = doer if len(self._paces) < MAX_DOERS else _OTHERS
        return self._paces.setdefault(doer, NoticePace(now))


class LeftOut(NamedTuple):
    """The last text that was not sent, of the rank with this key, and how many were left out before that one."""

    key: str
    text: str
    before: int


class LogPace:
    """The texts of one job: so many in a second are sent, and the others are counted."""

    def __init__(self, now: float) -> None:
        self._bucket = TokenBucket(now, 1.0)
        """Seconds of the rate, which is another one as jobs and clients come and go."""
        self._last: tuple[str, str] | None = None
        self._count = 0
        self._is_due = False

    def may_send(self, now: float, rate: float) -> bool:
        """Tell whether a text may be sent now, at ``rate`` texts a second, and count it as sent if so."""
        return self._bucket.try_spend(1 / rate, now)

    def leave_out(self, key: str, text: str) -> bool:
        """Count a text that is not sent, and tell whether :meth:`last` is to be called for it after a while."""
        self._last, self._count = (key, text), self._count + 1
        was_due, self._is_due = self._is_due, True
        return not was_due

    def left_out(self) -> int:
        """Return how many texts were left out since this was called last."""
        count, self._count, self._last = self._count, 0, None
        return count

    def last(self) -> LeftOut | None:
        """Return the last text that was left out, which is to be sent now; None if another one was sent since."""
        self._is_due = False
        if self._last is None:
            return None
        key, text = self._last
        return LeftOut(key, text, self.left_out() - 1)

    def is_rested(self, now: float) -> bool:
        """Tell whether it is as a new one."""
        return self._bucket.is_full(now) and not self._count


class LogListeners:
    """The clients by the numbers of their links, and a pace for each job: the flood of one hides no text of another."""

    def __init__(self) -> None:
        self.behind: dict[int, int] = {}
        """How many texts were not sent to each client since it was behind."""
        self._paces: dict[str, LogPace] = {}
        self._forgets_at = 0.0

    def set(self, number: int, *, wants: bool) -> None:
        """Note whether a client wants texts from now on."""
        if wants:
            self.behind.setdefault(number, 0)
        else:
            self.behind.pop(number, None)

    def may_send(self, pace: LogPace, now: float) -> bool:
        """Tell whether a text of a job is to be sent to all clients now, and count it as sent if so."""
        return pace.may_send(now, MAX_A_SECOND / (max(1, len(self.behind)) * max(1, len(self._paces))))

    def pace(self, job: str, now: float) -> LogPace:
        """Return the pace of a job."""
        if job not in self._paces or now >= self._forgets_at:
            self._forget_rested(now)
        if job not in self._paces and len(self._paces) >= MAX_JOBS:
            job = _OTHER_JOBS
        return self._paces.setdefault(job, LogPace(now))

    def _forget_rested(self, now: float) -> None:
        """Give the part of jobs that log nothing any more to the others."""
        self._forgets_at = now + 1
        for job in [job for job, pace in self._paces.items() if pace.is_rested(now)]:
            del self._paces[job]
