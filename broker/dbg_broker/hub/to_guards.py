"""What terminals ask of the guards of ranks: commands beside a rank, native stacks, and what NCCL tells.

A guard dials only when it has something to say. While it is not connected the rank is asked, and calls its guard. A
command is given to one connection of a guard and to no other, so that it never runs twice.
"""

from __future__ import annotations

import logging

from dbg_broker.hub.links import RankLink, TerminalLink
from dbg_broker.hub.state import Hub
from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire.errors import printable
from dbg_wire.messages import GUARD_ACTIONS, Action, Ask, Finding, Kind, Question, RankAnswer
from dbg_wire.records.beside import CommandLine

logger = logging.getLogger("dbg_broker")

MAX_OPEN = 4096
"""Questions to guards that are open at once, over all terminals: each may be a process on a host of the job."""

MAX_ASKS = 64
"""Unanswered questions to one guard that are remembered: one each second for a minute."""

MAX_NAMED = 8
"""Ranks that the log names for one command; more are counted."""

MAX_LOGGED = 300
"""Characters of a command in the log."""

WAITS_FOR_RANK = frozenset({Finding.STUCK, Finding.SUSPENDED})
"""Findings with which a guard answers for its rank."""


def is_too_much(hub: Hub, question: Question) -> bool:
    """Tell whether too many questions to guards would be open with this one."""
    if question.action not in GUARD_ACTIONS:
        return False
    return hub.questions.waiting_for(GUARD_ACTIONS) + len(question.keys) > MAX_OPEN


def known_answer(rank: RankRecord, question: Question, *, is_too_much: bool) -> RankAnswer | None:
    """Return why the guard of a rank can't be asked, None if it is to be asked."""
    if question.withdrawn:
        return RankAnswer(key=rank.key, kind=Kind.VALUE, text="ended")
    text = ""
    if rank.prefix:
        text = "a stock debugger has no agent that could do that"
    elif is_too_much:
        text = f"more than {MAX_OPEN} commands would run at once; name fewer ranks, or one of each host by --per-host"
    return RankAnswer(key=rank.key, kind=Kind.ERROR, text=text) if text else None


def is_readable(question: Question) -> bool:
    """Tell whether an ``exec`` has a command; other actions have none."""
    return question.action is not Action.EXEC or question.withdrawn or isinstance(question.inquiry, CommandLine)


def withdraw(hub: Hub, link: TerminalLink, question: Question) -> None:
    """End what this terminal has asked for by the same action, and what guards have begun for it."""
    for number in hub.questions.numbers_of(link.number, question.action):
        finished = hub.questions.finish(number)
        if finished is not None:
            hub.deliver(finished)


def note_command(hub: Hub, link: TerminalLink, question: Question, asked: list[str]) -> None:
    """Log who runs which command beside which ranks."""
    if question.action is not Action.EXEC or not asked or not isinstance(question.inquiry, CommandLine):
        return
    ranks = [rank.address for key in asked[:MAX_NAMED] if (rank := hub.registry.find(key)) is not None]
    more = f" and {len(asked) - MAX_NAMED} more" if len(asked) > MAX_NAMED else ""
    command = " ".join(question.inquiry.words)
    who, where = printable(link.name or "?"), printable(", ".join(ranks), MAX_LOGGED)
    logger.info("%s at %s runs %s beside %s", who, link.connection.peer, printable(command, MAX_LOGGED), where + more)


def pass_on(hub: Hub, key: str, ask: Ask) -> None:
    """Ask the guard of a rank, or the rank to call its guard."""
    guard = hub.guards.get(key)
    if guard is None:
        hub.tell_rank(key, ask)
    elif not give(guard, ask):
        text = f"{MAX_ASKS} questions to its guard are open already"
        _refuse(hub, key, ask, text)


def give(guard: RankLink, ask: Ask) -> bool:
    """Give a guard a question, unless too many are open or the guard has this one; return whether there was room."""
    if ask.request in guard.asks:
        return True
    if len(guard.asks) >= MAX_ASKS:
        return False
    guard.asks[ask.request] = ask
    guard.connection.send_message(ask)
    return True


def lose(hub: Hub, guard: RankLink) -> list[Ask]:
    """Settle what a guard whose connection has ended was asked; return what its rank can be asked instead."""
    left, guard.asks = list(guard.asks.values()), {}
    for ask in left:
        if ask.action in GUARD_ACTIONS and guard.guard_of is not None:
            text = "its guard has gone, and has ended what it had begun"
            _refuse(hub, guard.guard_of, ask, text)
    return [ask for ask in left if ask.action not in GUARD_ACTIONS]


def _refuse(hub: Hub, key: str, ask: Ask, text: str) -> None:
    if not hub.questions.waits_for(ask.request, key):
        return
    finished = hub.questions.know(ask.request, RankAnswer(key=key, kind=Kind.ERROR, text=text))
    if finished is not None:
        hub.deliver(finished)
