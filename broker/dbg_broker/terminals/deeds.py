"""What a terminal does at a rank, in words for those who look on, and how much of it each of them is told. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from dbg_wire.errors import printable
from dbg_wire.messages import Action, Question
from dbg_wire.records.beside import CommandLine
from dbg_wire.records.inspection import Inspection, PartsQuestion, Sight
from dbg_wire.records.line_breakpoints import BreakpointsWish, BreakpointWish, LineOfFile

MAX_SHOWN = 80
"""Characters of a command or an expression that others are shown, so that a sentence fits into two lines."""

MAX_PLACES = 3
"""Breakpoints that a sentence names."""

TOLD_AT_ONCE = 4
"""Deeds of one terminal that another is told at once, each by itself."""

SECONDS_FOR_ONE = 2.0
"""Seconds after which one more is told: a sentence is read in that time."""

MAX_DOERS = 8
"""Paces that are kept apart at one terminal that looks on; the deeds of all further terminals share one."""

_ENDING = frozenset({"c", "cont", "continue", "q", "quit", "exit"})
"""Commands of pdb by which a stop ends."""


class Deed(NamedTuple):
    """Something done at a rank: what, without who did it, and whether the stop ends by it."""

    text: str
    ends_stop: bool = False


def deed_of(question: Question) -> Deed | None:
    """Return what a question does at a rank; None for one that only looks, and for one that no rank would read."""
    if question.withdrawn:
        return None
    return _PLAIN.get(question.action) or _of_what_is_asked(question)


_PLAIN = {
    Action.CONTINUE: Deed("let it go on", ends_stop=True),
    Action.RELEASE: Deed("let it go on", ends_stop=True),
    Action.KILL: Deed("killed it", ends_stop=True),
    Action.INTERRUPT: Deed("broke in"),
}


def _of_what_is_asked(question: Question) -> Deed | None:
    action, text, asked = question.action, question.text, question.inquiry
    if action is Action.EVAL:
        return None if isinstance(asked, PartsQuestion) else Deed(f"asked {_quoted(text)}")
    if action is Action.COMMAND:
        return Deed(f"ran {_quoted(text)}", ends_stop=text.strip() in _ENDING)
    if action is Action.EXEC and isinstance(asked, CommandLine):
        return Deed(f"ran {_quoted(shlex.join(asked.words))} beside it")
    if action is Action.INSPECT and isinstance(asked, Inspection):
        return _of_inspection(asked)
    return _of_breakpoints(asked) if action is Action.BREAKPOINTS and isinstance(asked, BreakpointsWish) else None


def _of_inspection(asked: Inspection) -> Deed | None:
    if asked.sight is Sight.ASSIGN:
        return Deed(f"set {_quoted(asked.name)} to {_quoted(asked.text)}")
    if asked.sight is Sight.VALUE and asked.runs:
        return Deed(f"ran {_quoted(asked.text)}")
    return None


def _of_breakpoints(wish: BreakpointsWish) -> Deed | None:
    # An IDE clears the breakpoints of a file, and sets them anew with the one that its user has added.
    if wish.set:
        return Deed(f"set {_breakpoints(wish.set)}")
    return Deed(f"cleared {_breakpoints(wish.clear)}") if wish.clear else None


def _breakpoints(places: Sequence[BreakpointWish | LineOfFile]) -> str:
    named = [printable(f"{one.file.rpartition('/')[2]}:{one.line}", MAX_SHOWN) for one in places[:MAX_PLACES]]
    more = f" and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
    return f"{'a breakpoint' if len(places) == 1 else 'breakpoints'} at {', '.join(named)}{more}"


def _quoted(text: str) -> str:
    first, line_feed, _ = text.strip().partition("\n")
    return f"`{printable(first, MAX_SHOWN)}{' …' if line_feed else ''}`"


class Pace:
    """What of some deeds is told: TOLD_AT_ONCE, then one each SECONDS_FOR_ONE, with the number of those before it."""

    def __init__(self, now: float) -> None:
        self._credit = float(TOLD_AT_ONCE)
        self._at = now
        self._counted = 0
        self._last = ""

    def may_tell(self, now: float) -> bool:
        """Take one deed off the pace, and tell whether it is to be told now and by itself."""
        self._rest(now)
        if self._credit < 1 or self._counted:
            return False
        self._credit -= 1
        return True

    def count(self, sentence: str, now: float) -> float | None:
        """Count a deed that is not told; return after how many seconds to call :meth:`more`, None if that is due."""
        self._rest(now)
        self._counted, self._last = self._counted + 1, sentence
        return max(0.0, 1 - self._credit) * SECONDS_FOR_ONE if self._counted == 1 else None

    def more(self, now: float) -> str | None:
        """Return a sentence for the deeds that were counted; None if there are none."""
        self._rest(now)
        counted, last = self._counted, self._last
        self._credit, self._counted, self._last = max(0.0, self._credit - 1), 0, ""
        return f"{last}, and {counted - 1} more before that" if counted > 1 else last or None

    def is_rested(self, now: float) -> bool:
        """Tell whether it is as a new one."""
        self._rest(now)
        return not self._counted and self._credit == TOLD_AT_ONCE

    def _rest(self, now: float) -> None:
        self._credit = min(float(TOLD_AT_ONCE), self._credit + (now - self._at) / SECONDS_FOR_ONE)
        self._at = now


class DeedPaces:
    """The paces of those who do something at one rank, as kept for one terminal that looks on there.

    Deeds that end a stop have a pace of their own: what is told of the others must not hide who has ended it. The
    length is the number of paces, MAX_DOERS and one for all others.
    """

    def __init__(self, key: str) -> None:
        """Begin at the rank of this key."""
        self.key = key
        self._paces: dict[tuple[int, bool], Pace] = {}

    def __len__(self) -> int:
        return len(self._paces)

    def of(self, number: int, deed: Deed, now: float) -> Pace:
        """Return the pace for a deed of the terminal with this number."""
        doer = (number, deed.ends_stop)
        if doer not in self._paces:
            for rested in [known for known, pace in self._paces.items() if pace.is_rested(now)]:
                del self._paces[rested]
            doer = doer if len(self._paces) < MAX_DOERS else _OTHERS
        return self._paces.setdefault(doer, Pace(now))


_OTHERS = (-1, False)
"""All terminals beyond MAX_DOERS; connections count from 1."""
