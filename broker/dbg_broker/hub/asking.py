"""What terminals ask of ranks: what the broker answers itself, and when a rank or its guard is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dbg_broker.home.bearer import Role
from dbg_broker.hub import guards, notices
from dbg_broker.hub.links import TerminalLink
from dbg_broker.hub.ranks import Ranks
from dbg_broker.hub.state import Hub, refuse
from dbg_broker.journal.entries import text_of
from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.questions import Said, broker_says
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.terminals.actions import VisibleAction, visible_action
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_ASK_SECONDS
from dbg_wire.messages import (
    GUARD_ACTIONS,
    Action,
    Ask,
    Finding,
    Kind,
    Question,
    RefusalCode,
    Withdraw,
)
from dbg_wire.messages.weights import FOR_EACH_RANK, FOR_EACH_RANK_OF_WATCHER
from dbg_wire.records.audit import What
from dbg_wire.records.ranks import WITHOUT_TRACEBACK, RankState, signal_name

MAX_QUESTIONS = 16
"""Questions of one terminal that are open or not yet read: no client asks more at once."""

NEEDS_STOP = frozenset({Action.CONTINUE, Action.SCREEN, Action.EVAL, Action.COMMAND, Action.INSPECT})

FOR_WATCHERS = frozenset({Action.SCREEN, Action.WHERE, Action.SAMPLE})
"""Questions that only look."""

NOBODY = 0
"""Number of a question whose answer is not waited for; open questions count from one."""


def receive(hub: Hub, link: TerminalLink, message: Question) -> None:
    """Ask ranks what a terminal wants to know of them, or refuse it; answers that are known go out at once."""
    questions = hub.ranks.questions
    if len(questions.of(link.number)) + link.answers.ended >= MAX_QUESTIONS:
        text = f"{MAX_QUESTIONS} questions are open already; wait for their answers"
        refuse(link.connection, RefusalCode.FULL, text, message.request)
        return
    if message.action in GUARD_ACTIONS and not guards.is_readable(message):
        raise PeerError("an `exec` without a command")
    is_too_much = guards.is_too_much(questions, message)
    number, keys = questions.ask(link.number, message, hub.timers.clock())
    weight = FOR_EACH_RANK_OF_WATCHER if link.role is Role.WATCHER else FOR_EACH_RANK[Question]
    link.connection.charge(weight * len(keys))
    noted = text_of(message, audits_input=hub.journal.audits_input)
    if noted is not None:
        hub.journal.note(link, What.QUESTION, message.keys, action=message.action.value, text=noted)
    if not keys:
        hub.end_question(number)
        return
    ask = guards.ask_of(message, number, min(message.seconds, MAX_ASK_SECONDS))
    asked = _Asked(link, message, ask, visible_action(message), is_too_much=is_too_much)
    hub.turns.begin(_asking(hub, asked, keys))


def withdraw(hub: Hub, link: TerminalLink, message: Withdraw) -> None:
    """End a question that its terminal gives up; one that has ended is no error."""
    number = hub.ranks.questions.number_of(link.number, message.request)
    if number is not None:
        hub.end_question(number)


class _Asked(NamedTuple):
    """A question on its way to the ranks: who asked, what, what ranks are asked for it, and what it does there."""

    link: TerminalLink
    question: Question
    ask: Ask
    visible: VisibleAction | None
    is_too_much: bool


def _asking(hub: Hub, asked: _Asked, keys: Iterable[str]) -> Iterator[None]:
    """Answer for the ranks of which the broker knows enough, and ask the others."""
    frame = pack_message(asked.ask)
    told: list[str] = []
    for key in keys:
        if hub.ranks.questions.waits_for(asked.ask.request, key):
            known = _known_answer(hub, asked, key)
            if known is None:
                _ask(hub, key, asked, frame)
                told.append(key)
            else:
                _answer_for(hub, asked, key, known)
        yield
    guards.note_command(hub.ranks.registry, asked.link, asked.question, told)


def _ask(hub: Hub, key: str, asked: _Asked, frame: bytes) -> None:
    if asked.visible is not None:
        notices.notify_onlookers(hub, asked.link, asked.visible, key)
    if asked.ask.action is Action.KILL:
        hub.ranks.registry.condemned(key, asked.link.name or "somebody")
    _pass_on(hub, asked.ask, key, frame)


def _answer_for(hub: Hub, asked: _Asked, key: str, known: Said) -> None:
    if asked.ask.action is Action.INTERRUPT:
        if asked.visible is not None and known.kind is Kind.RUNNING:
            notices.notify_onlookers(hub, asked.link, asked.visible, key)
        # A rank that is stuck in C code stops when that returns; its answer is not waited for.
        hub.ranks.send(key, asked.ask.replace(request=NOBODY))
    hub.answer(key, asked.ask.request, known)


def _pass_on(hub: Hub, ask: Ask, key: str, frame: bytes) -> None:
    """Pass a question on to a rank or its guard; ``frame`` is the question as it is sent."""
    if ask.action in GUARD_ACTIONS or (ask.action is Action.WHERE and _guard_speaks(hub.ranks, key)):
        guards.pass_on(hub, key, ask)
    else:
        hub.ranks.send_packed(key, ask, frame)
        hub.ranks.liveness.probes.asked(key, hub.timers.clock())


def _guard_speaks(ranks: Ranks, key: str) -> bool:
    """Tell whether a rank is unresponsive and its guard answers for it."""
    rank, guard = ranks.registry.find(key), ranks.guards.get(key)
    is_there = guard is not None and guard.finding is not Finding.CALLED
    return is_there and rank is not None and rank.state is RankState.UNRESPONSIVE


def _known_answer(hub: Hub, asked: _Asked, key: str) -> Said | None:
    """Return what the broker can say itself, or None if the rank is to be asked."""
    link, question = asked.link, asked.question
    rank = hub.ranks.registry.find(key) if hub.terminals.listing.may_see(link, key) else None
    if rank is None:
        return broker_says(Kind.LOST, "no rank has this key")
    frames = rank.frames if question.action is Action.WHERE else ()
    if rank.state is RankState.EXITED:
        return broker_says(Kind.LOST, _how_it_ended(rank), frames=frames)
    if rank.state is RankState.LOST:
        return broker_says(Kind.LOST, "its connection is lost", frames=frames)
    if question.action in GUARD_ACTIONS:
        return guards.known_answer(is_too_much=asked.is_too_much)
    if rank.state is RankState.UNRESPONSIVE and question.action is Action.WHERE and not _guard_speaks(hub.ranks, key):
        age = hub.timers.clock() - rank.heard
        text = f"unresponsive, last seen {age:.0f} s ago"
        return broker_says(Kind.VALUE, text, frames=frames, age=round(age, 3))
    if rank.state is RankState.UNRESPONSIVE and question.action is Action.INTERRUPT:
        if question.withdrawn:
            return broker_says(Kind.VALUE, "goes on")
        age = hub.timers.clock() - rank.heard
        text = f"in C code{_place(rank, ' at ')}, unresponsive for {age:.0f} s; stops on return"
        return broker_says(Kind.RUNNING, text)
    if question.action in NEEDS_STOP and not rank.halted and not question.live:
        return broker_says(Kind.RUNNING, f"running{_place(rank, ', ')}")
    if question.action is Action.RELEASE and rank.state is not RankState.HELD:
        return broker_says(Kind.ERROR, f"{rank.state.value}, not held")
    return None


def _place(rank: RankRecord, before: str) -> str:
    return f"{before}{rank.place.file}:{rank.place.line}" if rank.place is not None else ""


def _how_it_ended(rank: RankRecord) -> str:
    if rank.end.exit is not None and rank.end.exit < 0:
        return f"killed by {signal_name(-rank.end.exit)} {rank.end.cause}".rstrip()
    without = f" {WITHOUT_TRACEBACK}" if rank.end.detail == WITHOUT_TRACEBACK else ""
    return f"exited{with_status(rank)}{without}"


def with_status(rank: RankRecord) -> str:
    """Return the status of a rank that has exited as the end of a sentence, empty if it isn't known."""
    return "" if rank.end.exit is None else f" with status {rank.end.exit}"
