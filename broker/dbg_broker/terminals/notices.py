"""Notices: reports to terminals about the actions of other terminals at their rank, and the texts of log points.

A rank's screen does not show what other terminals ask, so notices do. Clients that ask for the log point texts of all
ranks are IDEs, which print the texts in their consoles.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dbg_broker.net import tcp
from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.table import Watcher
from dbg_broker.relay.seats import Seats
from dbg_broker.relay.weights import FOR_EACH_ONLOOKER
from dbg_broker.terminals.link import TerminalLink
from dbg_wire.errors import printable
from dbg_wire.messages import Action, Logged, Notice, Question
from dbg_wire.records.inspection import (
    BreakpointChanges,
    BreakpointSpec,
    CommandLine,
    Inspection,
    InspectionKind,
    LineOfFile,
)
from dbg_wire.records.numbers import NumbersQuestion

MAX_TEXT = 2000
"""Maximum length of a log point's text that is sent to clients, in characters."""


class Notices(Watcher):
    """Sender of notices; ``links`` are the terminals by number."""

    def __init__(self, seats: Seats, links: Mapping[int, TerminalLink]) -> None:
        self._seats, self._links = seats, links
        self._listeners: dict[int, int] = {}
        """Clients that asked for log point texts, each with the number of texts that it missed while it was behind."""

    def listen(self, number: int, *, wants: bool) -> None:
        """Record whether a terminal wants the texts of log points from now on."""
        if wants:
            self._listeners.setdefault(number, 0)
        else:
            self._listeners.pop(number, None)

    def notify_onlookers(self, link: TerminalLink, action: VisibleAction, key: str) -> None:
        """Notify all other terminals at a rank of one terminal's action."""
        others = (self._links[number] for number in self._seats.viewers(key))
        onlookers = [other for other in others if not _is_same(link, other)]
        if not onlookers:
            return
        link.connection.charge(FOR_EACH_ONLOOKER * len(onlookers))
        notice = Notice(text=f"{_who(link)} {action.text}", ends_stop=action.ends_stop)
        for onlooker in onlookers:
            # A terminal that is behind misses the notice: its screen is more important.
            if onlooker.connection.is_ready:
                onlooker.connection.send_message(notice)

    def logged(self, rank: RankRecord, notice: Notice) -> None:
        """Send a log point's text to the terminals at its rank, and to the clients that asked for all texts."""
        seated = [number for number in self._seats.viewers(rank.key) if number not in self._listeners]
        if seated:
            frame = pack_message(notice)
            for number in seated:
                self._links[number].connection.send_control(frame)
        text = notice.text if len(notice.text) <= MAX_TEXT else f"{notice.text[: MAX_TEXT - 1]}…"
        for number, left_out in tuple(self._listeners.items()):
            link = self._links[number]
            if not link.bearer.may_see(rank.identity.job):
                continue
            # A client that is behind misses the text: its list and its answers are more important.
            is_ready = link.connection.is_ready
            self._listeners[number] = 0 if is_ready else left_out + 1
            if is_ready:
                link.connection.send_message(Logged(key=rank.key, text=text, left_out=left_out))


def _who(link: TerminalLink) -> str:
    """Return the actor's name. It is in quotes, as in the audit log, because the terminal chose it."""
    name = f'"{printable(link.name or "?").replace(chr(34), chr(39))}"'
    return f"{name} ({printable(link.bearer.name)})" if link.bearer.name else name


def _is_same(link: TerminalLink, other: TerminalLink) -> bool:
    """Return True if two connections belong to one program, which opens several under one name."""
    if link.number == other.number:
        return True
    if link.name != other.name or not (link.name or "").endswith(")"):
        return False
    return link.bearer == other.bearer and tcp.host_of(link.connection.peer) == tcp.host_of(other.connection.peer)


MAX_SHOWN = 80
"""Maximum length of a command or expression in a notice, in characters, so that a notice fits into two lines."""

MAX_PLACES = 3
"""Maximum number of breakpoints that a notice names."""

_ENDING = frozenset({"c", "cont", "continue", "q", "quit", "exit"})
"""Commands of pdb that end a stop."""


class VisibleAction(NamedTuple):
    """Action at a rank: its text without the actor, and whether it ends the stop."""

    text: str
    ends_stop: bool = False


def visible_action(question: Question) -> VisibleAction | None:
    """Return the visible action of a question, or None if it only reads or cancels an interrupt."""
    if question.withdrawn:
        return None
    return _PLAIN.get(question.action) or _of_what_is_asked(question)


_PLAIN = {
    Action.CONTINUE: VisibleAction("resumed it", ends_stop=True),
    Action.RELEASE: VisibleAction("resumed it", ends_stop=True),
    Action.KILL: VisibleAction("killed it", ends_stop=True),
    Action.INTERRUPT: VisibleAction("interrupted it"),
}


def _of_what_is_asked(question: Question) -> VisibleAction | None:
    action, text, asked = question.action, question.text, question.inquiry
    if action is Action.EVAL:
        return VisibleAction(f"asked {_quoted(text)}")
    if action is Action.COMMAND:
        return VisibleAction(f"ran {_quoted(text)}", ends_stop=text.strip() in _ENDING)
    if action is Action.EXEC and isinstance(asked, CommandLine):
        return VisibleAction(f"ran {_quoted(shlex.join(asked.argv))} next to it")
    if action is Action.NUMBERS and isinstance(asked, NumbersQuestion):
        return VisibleAction("changed the watch of its numbers") if asked.is_watch or asked.ends else None
    if action is Action.INSPECT and isinstance(asked, Inspection):
        return _of_inspection(asked)
    return _of_breakpoints(asked) if action is Action.BREAKPOINTS and isinstance(asked, BreakpointChanges) else None


def _of_inspection(asked: Inspection) -> VisibleAction | None:
    if asked.sight is InspectionKind.ASSIGN:
        return VisibleAction(f"set {_quoted(asked.name)} to {_quoted(asked.text)}")
    if asked.sight is InspectionKind.VALUE and asked.runs:
        return VisibleAction(f"ran {_quoted(asked.text)}")
    return None


def _of_breakpoints(spec: BreakpointChanges) -> VisibleAction | None:
    # To add one breakpoint, an IDE clears all breakpoints of the file and sets them again. So a notice does not name
    # the cleared ones.
    if spec.set:
        return VisibleAction(f"set {_breakpoints(spec.set)}")
    return VisibleAction(f"cleared {_breakpoints(spec.clear)}") if spec.clear else None


def _breakpoints(places: Sequence[BreakpointSpec | LineOfFile]) -> str:
    named = [printable(f"{one.file.rpartition('/')[2]}:{one.line}", MAX_SHOWN) for one in places[:MAX_PLACES]]
    more = f" and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
    return f"{'a breakpoint' if len(places) == 1 else 'breakpoints'} at {', '.join(named)}{more}"


def _quoted(text: str) -> str:
    first, line_feed, _ = text.strip().partition("\n")
    return f"`{printable(first, MAX_SHOWN)}{' …' if line_feed else ''}`"
